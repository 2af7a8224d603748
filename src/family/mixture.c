/* mixture.c: q = sum_c pi_c N(m_c, diag s_c^2), pi = softmax(logits), c < C; phi = (logits, m, log
 * s), by component.
 *
 * Draws are stratified. Draw j is of component j % C, so that every range of draws has all of them;
 * component c has n_c draws,
 * each of weight pi_c / n_c. Its noise is a run of consecutive columns of u, because every C-th
 * point of a Sobol sequence would
 * be badly spread (every second one lies in one half of the first dimension):
 *   theta_j = m_c + s_c u[column first_c + j / C].
 * All draws count by their weights, so a gradient in the logits is exact and needs no
 * score-function estimate.
 */
#include "family/family_int.h"

#include <math.h>
#include <string.h>

static size_t size(const Shape *s) { return s->components * (1 + 2 * s->dim); }
static size_t noise(const Shape *s) { return s->dim; }
static size_t mean_at(const Shape *s, size_t c) { return s->components + c * s->dim; }
static size_t log_sd_at(const Shape *s, size_t c) {
  return s->components * (1 + s->dim) + c * s->dim;
}

/* theta and its adjoint, a row of log densities for every component, log q, w */
static size_t scratch(const Shape *s, size_t ld) { return (2 * s->dim + s->components + 2) * ld; }

static void softmax(const double *logit, size_t C, double *pi) {
  double top = -INFINITY, sum = 0;
  for (size_t c = 0; c < C; c++) top = fmax(top, logit[c]);
  for (size_t c = 0; c < C; c++) sum += pi[c] = exp(logit[c] - top);
  for (size_t c = 0; c < C; c++) pi[c] /= sum;
}

/* ---- where it starts, what it is ------------------------------------------------------------- */

enum { SPREAD = 2 }; /* sds of components: the last has SPREAD^2 times that of the first */

/* Centres spread by sd/2 about the mean, dealt to the components in another order in every
 * dimension (a Latin square); component 0 is the narrowest. With equal weights the mixture has
 * exactly the mean and the sd asked for. */
static void start(double *phi, const Shape *shape, const double *mean, const double *sd) {
  size_t C = shape->components, dim = shape->dim;
  double middle = 0.5 * (double)(C - 1), unit = C > 1 ? 0.5 / sqrt((double)(C * C - 1) / 12) : 0,
         within = C > 1 ? 0.75 : 1;
  double squares = 0;
  for (size_t c = 0; c < C; c++)
    squares += pow(SPREAD, C > 1 ? 2 * ((double)c - middle) / middle : 0) / (double)C;
  for (size_t c = 0; c < C; c++) {
    double log_scale =
        (C > 1 ? ((double)c - middle) / middle * log(SPREAD) : 0) + 0.5 * log(within / squares);
    phi[c] = 0;
    for (size_t k = 0; k < dim; k++) {
      phi[mean_at(shape, c) + k] = mean[k] + sd[k] * unit * ((double)((c + k) % C) - middle);
      phi[log_sd_at(shape, c) + k] = log(sd[k]) + log_scale;
    }
  }
}

void family_mixture_of(double *phi, const Shape *shape, const double *weight, const double *mean,
                       const double *sd) {
  size_t C = shape->components, dim = shape->dim;
  for (size_t c = 0; c < C; c++) phi[c] = log(weight[c]);
  for (size_t k = 0; k < C * dim; k++) {
    phi[mean_at(shape, 0) + k] = mean[k];
    phi[log_sd_at(shape, 0) + k] = log(sd[k]);
  }
}

static void stretch(double *phi, const Shape *shape, size_t k, double factor, double move) {
  size_t C = shape->components;
  double pi[C], mean = 0;
  softmax(phi, C, pi);
  for (size_t c = 0; c < C; c++) mean += pi[c] * phi[mean_at(shape, c) + k];
  for (size_t c = 0; c < C; c++) {
    double *m = phi + mean_at(shape, c) + k;
    *m = mean + factor * (*m - mean) + move;
    phi[log_sd_at(shape, c) + k] += log(factor);
  }
}

/* E = sum pi m, Var = sum pi (s^2 + (m - E)^2) */
static void moments(const double *phi, const Shape *shape, double *mean, double *sd) {
  size_t C = shape->components, dim = shape->dim;
  double pi[C];
  softmax(phi, C, pi);
  for (size_t k = 0; k < dim; k++) {
    double e = 0, v = 0;
    for (size_t c = 0; c < C; c++) e += pi[c] * phi[mean_at(shape, c) + k];
    for (size_t c = 0; c < C; c++) {
      double s = family_sd(phi[log_sd_at(shape, c) + k]), d = phi[mean_at(shape, c) + k] - e;
      v += pi[c] * (s * s + d * d);
    }
    mean[k] = e;
    sd[k] = sqrt(v);
  }
}

/* ---- draws and their weights ----------------------------------------------------------------- */

/* The draws of component c are c, c + C, c + 2 C, ...; their noise is columns first, first + 1, ...
 */
typedef struct {
  size_t first, count;
} Stratum;

static Stratum stratum_of(const Noise *n, size_t c) {
  size_t C = n->shape->components, each = n->M / C, more = n->M % C;
  return (Stratum){c * each + (c < more ? c : more), each + (c < more)};
}

static void draw(const double *phi, const Noise *n, double *theta) {
  size_t C = n->shape->components, dim = n->shape->dim;
  for (size_t c = 0; c < C; c++) {
    Stratum of = stratum_of(n, c);
    for (size_t k = 0; k < dim; k++) {
      double m = phi[mean_at(n->shape, c) + k], s = family_sd(phi[log_sd_at(n->shape, c) + k]);
      const double *u = n->u + k * n->ld;
      double *out = theta + k * n->ld;
      size_t j = c;
      for (size_t t = 0; t < of.count; t++, j += C) out[j] = m + s * u[of.first + t];
      for (; j < n->ld; j += C) out[j] = m + s * u[j]; /* the padding */
    }
  }
}

/* How many components have draws: all, unless there are fewer draws than components. Their weights
 * sum to one. */
static size_t dealt(const Noise *n) {
  return n->M < n->shape->components ? n->M : n->shape->components;
}

static void weights(const double *phi, const Noise *n, double *w) {
  size_t C = n->shape->components, P = dealt(n);
  double p[C];
  softmax(phi, P, p);
  for (size_t c = 0; c < P; c++) p[c] /= (double)stratum_of(n, c).count;
  for (size_t j = 0; j < n->M; j++) w[j] = p[j % C];
}

/* w_j = pi_c / n_c: d w_j / d logit_b = w_j ((b == c) - pi_b), so with v_c = pi_c mean of adj_w
 * over c's draws, grad_b += v_b - pi_b sum v. */
static void adjoint_weights(const double *phi, const Noise *n, const double *adj_w, double *grad) {
  size_t C = n->shape->components, P = dealt(n);
  double p[C], v[C], all = 0;
  softmax(phi, P, p);
  for (size_t c = 0; c < P; c++) {
    double sum = 0;
    for (size_t j = c; j < n->M; j += C) sum += adj_w[j];
    all += v[c] = p[c] * sum / (double)stratum_of(n, c).count;
  }
  for (size_t c = 0; c < P; c++) grad[c] += v[c] - p[c] * all;
}

/* d theta / d m = 1, d theta / d log s = s u, both of the draw's own component */
static void adjoint(const double *phi, const Noise *n, const double *adj, const double *adj_w,
                    double *grad) {
  size_t C = n->shape->components, dim = n->shape->dim;
  for (size_t c = 0; c < C; c++) {
    Stratum of = stratum_of(n, c);
    for (size_t k = 0; k < dim; k++) {
      const double *a = adj + k * n->ld + c, *u = n->u + k * n->ld + of.first;
      double sum = 0, dot = 0;
      for (size_t t = 0; t < of.count; t++) {
        sum += a[t * C];
        dot += a[t * C] * u[t];
      }
      grad[mean_at(n->shape, c) + k] += sum;
      grad[log_sd_at(n->shape, c) + k] += family_sd_slope(phi[log_sd_at(n->shape, c) + k]) * dot;
    }
  }
  if (adj_w) adjoint_weights(phi, n, adj_w, grad);
}

/* ---- density --------------------------------------------------------------------------------- */

typedef struct {
  double *theta, *adj; /* [dim x ld] */
  double *l;           /* [C x ld]: log pi_c + log N(theta_j; m_c, s_c) */
  double *log_q;       /* [ld] */
  double *w;           /* [ld] */
} Room;

static Room room_of(const Noise *n) {
  size_t dim = n->shape->dim, C = n->shape->components, ld = n->ld;
  double *p = n->scratch;
  return (Room){p, p + dim * ld, p + 2 * dim * ld, p + (2 * dim + C) * ld,
                p + (2 * dim + C + 1) * ld};
}

/* l_cj, given theta */
static void component_density(const double *phi, const Noise *n, const Room *r, size_t c,
                              double log_pi) {
  size_t dim = n->shape->dim, lanes = family_padded(n->M);
  const double *m = phi + mean_at(n->shape, c), *log_sd = phi + log_sd_at(n->shape, c);
  double *l = r->l + c * n->ld, constant = log_pi - (double)dim * HALF_LOG_2PI;
  for (size_t k = 0; k < dim; k++) constant -= family_log_sd(log_sd[k]);
  for (size_t j = 0; j < lanes; j++) l[j] = constant;
  for (size_t k = 0; k < dim; k++) {
    const double *theta = r->theta + k * n->ld;
    double mk = m[k], precision = 1 / family_sd(log_sd[k]);
    for (size_t j = 0; j < lanes; j++) {
      double z = (theta[j] - mk) * precision;
      l[j] -= 0.5 * z * z;
    }
  }
}

/* theta, l and log q = log sum_c exp l_c, of all draws */
static void densities(const double *phi, const Noise *n, const Room *r) {
  size_t C = n->shape->components;
  const double *l[C];
  size_t step[C];
  double pi[C];
  draw(phi, n, r->theta);
  softmax(phi, C, pi);
  for (size_t c = 0; c < C; c++) {
    component_density(phi, n, r, c, log(pi[c]));
    l[c] = r->l + c * n->ld;
    step[c] = 1;
  }
  n->k->log_sum_exp(r->log_q, &(RowList){l, step, C}, family_padded(n->M));
}

/* With a_j the adjoint of log q_j: through q's own parameters into grad, through theta into r->adj.
 * With the responsibility r_c = exp(l_c - log q), R = a r_c and z = (theta - m_c) / s_c,
 *
 *   d log q / d logit_c = r_c - pi_c           d log q / d m_c   = r_c z / s_c
 *   d log q / d log s_c = r_c (z^2 - 1)        d log q / d theta = -sum_c r_c z / s_c
 */
static void density_adjoint(const double *phi, const Noise *n, const Room *r, const double *a,
                            double *grad) {
  size_t C = n->shape->components, dim = n->shape->dim, M = n->M, lanes = family_padded(M);
  double pi[C], all = n->k->sum(a, M);
  softmax(phi, C, pi);
  memset(r->adj, 0, dim * n->ld * sizeof *r->adj);
  for (size_t c = 0; c < C; c++) {
    double *R = r->l + c * n->ld;
    for (size_t j = 0; j < lanes; j++) R[j] -= r->log_q[j];
    n->k->forward[IR_EXP](R, (const double *[]){R}, (size_t[]){1}, lanes);
    for (size_t j = 0; j < M; j++) R[j] *= a[j];
    double total = n->k->sum(R, M);
    grad[c] += total - pi[c] * all;
    for (size_t k = 0; k < dim; k++) {
      const double *theta = r->theta + k * n->ld;
      double *adj = r->adj + k * n->ld, first = 0, second = 0;
      double m = phi[mean_at(n->shape, c) + k], log_sd = phi[log_sd_at(n->shape, c) + k],
             precision = 1 / family_sd(log_sd);
      for (size_t j = 0; j < M; j++) {
        double z = (theta[j] - m) * precision, t = R[j] * z;
        first += t;
        second += t * z;
        adj[j] -= t * precision;
      }
      grad[mean_at(n->shape, c) + k] += first * precision;
      grad[log_sd_at(n->shape, c) + k] += (second - total) * family_log_sd_slope(log_sd);
    }
  }
}

/* H = -sum_j w_j log q(theta_j), with all three of its derivatives: through w_j, through theta_j
 * and through q */
static double entropy(const double *phi, const Noise *n, double weight, double *grad) {
  Room r = room_of(n);
  densities(phi, n, &r);
  weights(phi, n, r.w);
  double h = -n->k->dot(r.w, r.log_q, n->M);
  if (weight == 0) return h;
  for (size_t j = 0; j < n->M; j++) r.w[j] *= -weight;
  density_adjoint(phi, n, &r, r.w, grad);
  for (size_t j = 0; j < n->M; j++) r.log_q[j] *= -weight;
  adjoint(phi, n, r.adj, r.log_q, grad);
  return h;
}

static void log_q(const double *phi, const Noise *n, double *out) {
  Room r = room_of(n);
  densities(phi, n, &r);
  memcpy(out, r.log_q, n->M * sizeof *out);
}

/* log sum_c pi_c N(theta; m_c, s_c), the largest term taken out */
static void log_density(const double *phi, const Shape *shape, const double *theta, size_t n,
                        double *out) {
  size_t C = shape->components, dim = shape->dim;
  double pi[C], l[C];
  softmax(phi, C, pi);
  for (size_t j = 0; j < n; j++, theta += dim) {
    double top = -INFINITY, sum = 0;
    for (size_t c = 0; c < C; c++) {
      l[c] = log(pi[c]) - (double)dim * HALF_LOG_2PI;
      for (size_t k = 0; k < dim; k++) {
        double log_sd = phi[log_sd_at(shape, c) + k];
        double z = (theta[k] - phi[mean_at(shape, c) + k]) / family_sd(log_sd);
        l[c] -= family_log_sd(log_sd) + 0.5 * z * z;
      }
      top = fmax(top, l[c]);
    }
    for (size_t c = 0; c < C; c++) sum += exp(l[c] - top);
    out[j] = top == -INFINITY ? top : top + log(sum);
  }
}

/* Of every component as in meanfield, seen by its part pi_c of the draws; 1 / pi_c for its logit.
 */
static void scale(const double *phi, const Shape *shape, const double *unit, double *d) {
  size_t C = shape->components, dim = shape->dim;
  double pi[C];
  softmax(phi, C, pi);
  for (size_t c = 0; c < C; c++) {
    double share = fmax(pi[c], 0.01);
    d[c] = 1 / share;
    for (size_t k = 0; k < dim; k++) {
      double s = family_wider(family_sd(phi[log_sd_at(shape, c) + k]), unit, k);
      d[mean_at(shape, c) + k] = s * s / share;
      d[log_sd_at(shape, c) + k] = 0.5 / share;
    }
  }
}

static void reach(const double *phi, const Shape *shape, double *d) {
  size_t C = shape->components, dim = shape->dim;
  for (size_t c = 0; c < C; c++) {
    const double *m = phi + mean_at(shape, c), *log_sd = phi + log_sd_at(shape, c);
    d[c] = REACH_LOG;
    for (size_t k = 0; k < dim; k++) {
      d[mean_at(shape, c) + k] = family_reach_at(m[k], family_sd(log_sd[k]));
      d[log_sd_at(shape, c) + k] = REACH_LOG;
    }
  }
}

static int parts(const Shape *s, FamilyPart *out) {
  out[0] = (FamilyPart){"logit", 0, s->components, 1};
  out[1] = (FamilyPart){"mean", mean_at(s, 0), s->components, s->dim};
  out[2] = (FamilyPart){"log_sd", log_sd_at(s, 0), s->components, s->dim};
  return 3;
}

static size_t normals(const Shape *s) { return s->components; }

static void laws(const double *phi, const Shape *shape, NormalLaw *out) {
  size_t C = shape->components, dim = shape->dim;
  double pi[C];
  softmax(phi, C, pi);
  for (size_t c = 0; c < C; c++) {
    out[c].weight = pi[c];
    for (size_t k = 0; k < dim; k++) {
      double s = family_sd(phi[log_sd_at(shape, c) + k]);
      out[c].mean[k] = phi[mean_at(shape, c) + k];
      out[c].var[k] = s * s;
    }
  }
}

static void laws_adjoint(const double *phi, const Shape *shape, const NormalLaw *law,
                         const NormalLaw *adj, double *grad) {
  size_t C = shape->components, dim = shape->dim;
  double all = 0;
  for (size_t c = 0; c < C; c++) all += law[c].weight * adj[c].weight;
  for (size_t c = 0; c < C; c++) {
    grad[c] += law[c].weight * (adj[c].weight - all);
    for (size_t k = 0; k < dim; k++) {
      grad[mean_at(shape, c) + k] += adj[c].mean[k];
      size_t at = log_sd_at(shape, c) + k;
      grad[at] += 2 * law[c].var[k] * adj[c].var[k] * family_log_sd_slope(phi[at]);
    }
  }
}

const Family family_mixture = {.size = size,
                               .noise = noise,
                               .scratch = scratch,
                               .start = start,
                               .stretch = stretch,
                               .moments = moments,
                               .draw = draw,
                               .weights = weights,
                               .adjoint = adjoint,
                               .entropy = entropy,
                               .log_q = log_q,
                               .log_density = log_density,
                               .scale = scale,
                               .reach = reach,
                               .parts = parts,
                               .normals = normals,
                               .laws = laws,
                               .laws_adjoint = laws_adjoint};
