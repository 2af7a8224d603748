/* particles.c: q = 1/C sum_c N(x_c, diag h^2): C particles x_c of equal weight, seen through one
 * kernel whose widths h they share; phi = (x, log h), particles by rows.
 *
 * A score's gradient moves the particles, as a gradient flow does, and the widths with them:
 * without a regularizer these may go to zero, and q is then the particles themselves. It is a
 * mixture (see mixture.c) with equal logits and common sds: what that family computes is computed
 * there, on its own phi, which is made in the scratch.
 */
#include "family/family_int.h"

#include <math.h>
#include <string.h>

static size_t size(const Shape *s) { return (s->components + 1) * s->dim; }
static size_t noise(const Shape *s) { return s->dim; }
static size_t position_at(const Shape *s, size_t c) { return c * s->dim; }
static size_t width_at(const Shape *s) { return s->components * s->dim; }

/* ---- the mixture's phi ----------------------------------------------------------------------- */

static size_t mixture_size(const Shape *s) { return family_padded(family_mixture.size(s)); }
static size_t scratch(const Shape *s, size_t ld) {
  return family_mixture.scratch(s, ld) + 2 * mixture_size(s);
}

/* The mixture's phi and gradient, and its noise, which has the rest of the scratch. */
typedef struct {
  double *phi, *grad;
  Noise noise;
} Inner;

static Inner inner_of(const double *phi, const Noise *n) {
  const Shape *s = n->shape;
  size_t C = s->components, dim = s->dim;
  Inner i = {n->scratch, n->scratch + mixture_size(s), *n};
  i.noise.scratch = n->scratch + 2 * mixture_size(s);
  memset(i.phi, 0, C * sizeof *i.phi);
  memset(i.grad, 0, mixture_size(s) * sizeof *i.grad);
  memcpy(i.phi + C, phi, C * dim * sizeof *phi);
  for (size_t c = 0; c < C; c++)
    memcpy(i.phi + C + (C + c) * dim, phi + width_at(s), dim * sizeof *phi);
  return i;
}

/* grad += what the mixture's gradient is here: weights do not move, widths move together. */
static void pull(const Inner *i, const Shape *s, double *grad) {
  size_t C = s->components, dim = s->dim;
  for (size_t k = 0; k < C * dim; k++) grad[k] += i->grad[C + k];
  for (size_t k = 0; k < C * dim; k++) grad[width_at(s) + k % dim] += i->grad[C + C * dim + k];
}

/* ---- where it starts, what it is ------------------------------------------------------------- */

static size_t common_divisor(size_t a, size_t b) { return b ? common_divisor(b, a % b) : a; }

/* Particles evenly about the mean, dealt in another order in every dimension, and widths of
 * 0.3 sd: mean and sd are those asked for. */
static void start(double *phi, const Shape *s, const double *mean, const double *sd) {
  size_t C = s->components;
  const double within = 0.3;
  double squares = 0, unit;
  for (size_t c = 0; c < C; c++) {
    double z = 2 * ((double)c + 0.5) / (double)C - 1;
    squares += z * z / (double)C;
  }
  unit = C > 1 ? sqrt((1 - within * within) / squares) : 0;
  for (size_t k = 0; k < s->dim; k++) {
    size_t stride = 2 * k + 1; /* dimension k visits every stride-th place */
    while (common_divisor(stride, C) > 1) stride++;
    for (size_t c = 0; c < C; c++) {
      double z = 2 * ((double)((c * stride + k) % C) + 0.5) / (double)C - 1;
      phi[position_at(s, c) + k] = mean[k] + sd[k] * unit * z;
    }
    phi[width_at(s) + k] = log(C > 1 ? within * sd[k] : sd[k]);
  }
}

static double centre(const double *phi, const Shape *s, size_t k) {
  double sum = 0;
  for (size_t c = 0; c < s->components; c++) sum += phi[position_at(s, c) + k];
  return sum / (double)s->components;
}

static void stretch(double *phi, const Shape *s, size_t k, double factor, double move) {
  double mean = centre(phi, s, k);
  for (size_t c = 0; c < s->components; c++) {
    double *x = phi + position_at(s, c) + k;
    *x = mean + factor * (*x - mean) + move;
  }
  phi[width_at(s) + k] += log(factor);
}

static void moments(const double *phi, const Shape *s, double *mean, double *sd) {
  for (size_t k = 0; k < s->dim; k++) {
    double h = family_sd(phi[width_at(s) + k]), v = h * h;
    mean[k] = centre(phi, s, k);
    for (size_t c = 0; c < s->components; c++) {
      double d = phi[position_at(s, c) + k] - mean[k];
      v += d * d / (double)s->components;
    }
    sd[k] = sqrt(v);
  }
}

/* ---- draws, entropy, density: the mixture's -------------------------------------------------- */

static void draw(const double *phi, const Noise *n, double *theta) {
  Inner i = inner_of(phi, n);
  family_mixture.draw(i.phi, &i.noise, theta);
}

static void weights(const double *phi, const Noise *n, double *w) {
  Inner i = inner_of(phi, n);
  family_mixture.weights(i.phi, &i.noise, w);
}

static void adjoint(const double *phi, const Noise *n, const double *adj, const double *adj_w,
                    double *grad) {
  Inner i = inner_of(phi, n);
  (void)adj_w;
  family_mixture.adjoint(i.phi, &i.noise, adj, NULL, i.grad);
  pull(&i, n->shape, grad);
}

static double entropy(const double *phi, const Noise *n, double weight, double *grad) {
  Inner i = inner_of(phi, n);
  double h = family_mixture.entropy(i.phi, &i.noise, weight, i.grad);
  if (weight != 0) pull(&i, n->shape, grad);
  return h;
}

static void log_q(const double *phi, const Noise *n, double *out) {
  Inner i = inner_of(phi, n);
  family_mixture.log_q(i.phi, &i.noise, out);
}

static double kernel(const double *phi, const Shape *s, const double *theta, size_t c) {
  double l = -log((double)s->components) - (double)s->dim * HALF_LOG_2PI;
  for (size_t k = 0; k < s->dim; k++) {
    double log_h = phi[width_at(s) + k];
    double z = (theta[k] - phi[position_at(s, c) + k]) / family_sd(log_h);
    l -= family_log_sd(log_h) + 0.5 * z * z;
  }
  return l;
}

static void log_density(const double *phi, const Shape *s, const double *theta, size_t n,
                        double *out) {
  size_t C = s->components;
  double l[C];
  for (size_t j = 0; j < n; j++, theta += s->dim) {
    double top = -INFINITY, sum = 0;
    for (size_t c = 0; c < C; c++) top = fmax(top, l[c] = kernel(phi, s, theta, c));
    for (size_t c = 0; c < C; c++) sum += exp(l[c] - top);
    out[j] = top == -INFINITY ? top : top + log(sum);
  }
}

/* ---- for optimizers -------------------------------------------------------------------------- */

/* A particle is seen by its part 1 / C of the draws. */
static void scale(const double *phi, const Shape *s, const double *unit, double *d) {
  double share = fmax(1 / (double)s->components, 0.01);
  for (size_t k = 0; k < s->dim; k++) {
    double h = family_wider(family_sd(phi[width_at(s) + k]), unit, k);
    for (size_t c = 0; c < s->components; c++) d[position_at(s, c) + k] = h * h / share;
    d[width_at(s) + k] = 0.5;
  }
}

static void reach(const double *phi, const Shape *s, double *d) {
  for (size_t k = 0; k < s->dim; k++) {
    double h = family_sd(phi[width_at(s) + k]);
    for (size_t c = 0; c < s->components; c++)
      d[position_at(s, c) + k] = family_reach_at(phi[position_at(s, c) + k], h);
    d[width_at(s) + k] = REACH_LOG;
  }
}

static int parts(const Shape *s, FamilyPart *out) {
  out[0] = (FamilyPart){"position", 0, s->components, s->dim};
  out[1] = (FamilyPart){"log_width", width_at(s), s->dim, 1};
  return 2;
}

/* ---- its normals ----------------------------------------------------------------------------- */

static size_t normals(const Shape *s) { return s->components; }

static void laws(const double *phi, const Shape *s, NormalLaw *out) {
  for (size_t c = 0; c < s->components; c++) {
    out[c].weight = 1 / (double)s->components;
    for (size_t k = 0; k < s->dim; k++) {
      double h = family_sd(phi[width_at(s) + k]);
      out[c].mean[k] = phi[position_at(s, c) + k];
      out[c].var[k] = h * h;
    }
  }
}

static void laws_adjoint(const double *phi, const Shape *s, const NormalLaw *law,
                         const NormalLaw *adj, double *grad) {
  for (size_t c = 0; c < s->components; c++)
    for (size_t k = 0; k < s->dim; k++) {
      grad[position_at(s, c) + k] += adj[c].mean[k];
      size_t at = width_at(s) + k;
      grad[at] += 2 * law[c].var[k] * adj[c].var[k] * family_log_sd_slope(phi[at]);
    }
}

const Family family_particles = {.size = size,
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
