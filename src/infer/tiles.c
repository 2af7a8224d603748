/* tiles.c: the tape on an integral's lanes, tile by tile: the score of every row, its derivatives
 * in the heads and in the lanes' weights, and where centred nodes have to move.
 */
#include "infer/exact_int.h"

#include <math.h>
#include <string.h>

enum { MOST_PASSES = 20 };

/* Far nodes whose density underflows in the program's own arithmetic (log(1 - inv_logit(40))) do
 * not count. */
#define NEGLIGIBLE 1e-10

/* Are the nodes of component c where f is, given y? p: the nodes' probabilities given y. If not,
 * they move: where f is among them, to its mean and spread; where it is beyond the last one, after
 * it, with longer and longer strides. */
static void settle(Integral *I, size_t row, size_t c, const double *p, int worker) {
  size_t at = row * I->e->laws.count + c, n = I->nodes;
  double mean = 0, square = 0, most = 0;
  for (size_t k = 0; k < n; k++) {
    mean += p[k] * I->x1[k];
    square += p[k] * I->x1[k] * I->x1[k];
    most = fmax(most, fabs(I->x1[k]));
  }
  double sd = sqrt(fmax(square - mean * mean, 0));
  if (!isfinite(mean) || (fabs(mean) < 0.3 && sd > 0.7 && sd < 1.4)) return;
  I->centre[at] += I->width[at] * mean;
  I->width[at] *= fabs(mean) > 0.7 * most ? 4 : fmin(fmax(sd, 0.2), 4);
  I->e->unsettled[worker] = true;
}

/* The nodes' probabilities from their log densities ll, into p, behind which there is room for as
 * many. */
static const double *probabilities(const Integral *I, const double *ll, double *p) {
  size_t n = I->nodes, padded = (n + LANES - 1) / LANES * LANES;
  double *l = p + padded;
  for (size_t k = 0; k < padded; k++) l[k] = k < n ? ll[k] + I->log_node_weight[k] : -INFINITY;
  I->e->k->softmax(p, l, n);
  return p;
}

/* The weighted mean of a head of log densities; adds factor times its adjoints (the head may be the
 * score's, too). */
static double mean_head(const Integral *I, const double *head, double *adj, double *adj_w,
                        double factor) {
  if (adj) I->e->k->axpy(adj, factor, I->weights, I->ld);
  for (size_t j = 0; adj_w && j < I->M; j++) adj_w[j] += factor * (isfinite(head[j]) ? head[j] : 0);
  double mean = I->e->k->dot(I->weights, head, I->M);
  if (isfinite(mean)) return mean;
  mean = 0;
  for (size_t j = 0; j < I->M; j++)
    if (isfinite(head[j]) || I->weights[j] > NEGLIGIBLE)
      mean += I->weights[j] * (head[j] < INFINITY ? head[j] : -INFINITY);
  return mean;
}

static double score_row(Integral *I, const TileView *t, size_t r, double *adj_w) {
  Exact *e = I->e;
  const Observed *o = e->o;
  size_t ld = I->ld, obs = I->first + t->row + r;
  double *mine = e->lane_row + (size_t)t->worker * 3 * e->lane_size, *p = mine + e->lane_size;
  ScoreCase c = {.q = {.kind = I->kind,
                       .M = I->M,
                       .ld = ld,
                       .weights = I->weights,
                       .log_weights = I->log_weights},
                 .y = observed_y(o, I->block, obs),
                 .o = e->target.score_options,
                 .k = e->k,
                 .scratch = e->scratch + (size_t)t->worker * e->scratch_size};
  ScoreAdjoint adj = {.weights = adj_w ? mine : NULL};
  if (I->hint) c.hint = I->hint + 2 * (t->row + r);
  c.q.size = observed_size(o, I->block, obs);
  if (t->heads[HEAD_LL]) c.ll = t->heads[HEAD_LL] + r * ld;
  if (t->adj[HEAD_LL]) adj.ll = t->adj[HEAD_LL] + r * ld;
  for (int k = 0; k < KIND_PARAMETERS; k++) {
    if (t->heads[HEAD_PAR + k]) c.q.par[k] = t->heads[HEAD_PAR + k] + r * ld;
    if (t->adj[HEAD_PAR + k]) adj.par[k] = t->adj[HEAD_PAR + k] + r * ld;
  }
  double s = e->score(&c, &adj), factor = e->target.score_weight * observed_count(o, obs);
  for (size_t k = 0; I->centred && k < e->laws.count; k++)
    settle(I, t->row + r, k, probabilities(I, c.ll + k * I->nodes, p), t->worker);
  times(adj.ll, factor, ld);
  for (int k = 0; k < KIND_PARAMETERS; k++) times(adj.par[k], factor, ld);
  for (size_t j = 0; adj_w && j < I->M; j++) adj_w[j] += factor * mine[j];
  return s;
}

/* The log score of all rows of the tile at once, where there is one component and so no weights to
 * differentiate. Its derivatives are the nodes' probabilities. */
static bool log_rows(Integral *I, const TileView *t) {
  Exact *e = I->e;
  if (I->prior || I->mean || e->target.score != SCORE_log || I->adj_w) return false;
  double *adj = t->adj[HEAD_LL], *p = e->lane_row + (size_t)t->worker * 3 * e->lane_size;
  e->k->softmax_rows(&(SoftmaxRows){adj, t->heads[HEAD_LL], I->log_weights, I->ld, t->rows, I->M,
                                    e->row_score + I->first + t->row});
  for (size_t r = 0; I->centred && r < t->rows; r++) {
    size_t at = r * I->ld;
    settle(I, t->row + r, 0, adj ? adj + at : probabilities(I, t->heads[HEAD_LL] + at, p),
           t->worker);
  }
  for (size_t r = 0; adj && r < t->rows; r++)
    times(adj + r * I->ld, e->target.score_weight * observed_count(e->o, I->first + t->row + r),
          I->ld);
  return true;
}

static void tile_rows(void *self, const TileView *t) {
  Integral *I = self;
  Exact *e = I->e;
  bool scored = log_rows(I, t), back = t->adj[HEAD_LL] || t->adj[HEAD_PAR] || t->adj[HEAD_SIM];
  double *adj_w = back && I->adj_w ? I->adj_w + t->chunk * I->ld : NULL;
  for (size_t r = 0; r < t->rows; r++) {
    size_t row = t->row + r;
    double *adj_ll = t->adj[HEAD_LL] ? t->adj[HEAD_LL] + r * I->ld : NULL;
    if (I->prior) {
      double c = I->r->factor;
      e->row_prior[I->first + row] =
          c * mean_head(I, t->heads[HEAD_LL] + r * I->ld, adj_ll, adj_w, c * e->target.lambda);
      continue;
    }
    double count = observed_count(e->o, I->first + row);
    if (I->mean) {
      e->row_mean[I->first + row] =
          mean_head(I, t->heads[HEAD_LL] + r * I->ld, adj_ll, adj_w, e->posterior * count);
      continue;
    }
    if (e->target.score == SCORE_elbo) {
      e->row_score[I->first + row] = mean_head(I, t->heads[HEAD_LL] + r * I->ld, adj_ll, adj_w,
                                               e->target.score_weight * count);
    } else if (!scored) {
      e->row_score[I->first + row] = score_row(I, t, r, adj_w);
    }
    if (t->heads[HEAD_SIM])
      e->row_mean[I->first + row] = mean_head(
          I, t->heads[HEAD_SIM] + r * I->ld, t->adj[HEAD_SIM] ? t->adj[HEAD_SIM] + r * I->ld : NULL,
          adj_w, e->posterior * count);
  }
}

/* One integral, done again for as long as its centred nodes move. */
void tiles_integrate(Integral *I, bool back) {
  Exact *e = I->e;
  for (int round = 0; round < MOST_PASSES; round++) {
    memset(e->unsettled, 0, (size_t)e->workers * sizeof *e->unsettled);
    if (I->adj_w) memset(I->adj_w, 0, vm_chunks(I->work) * I->ld * sizeof *I->adj_w);
    double clock = e->stages ? base_seconds() : 0;
    leaves_set(I);
    if (e->stages) pass(&clock, &e->stages->draws);
    vm_forward(I->work, vm_theta(I->work));
    if (e->stages) pass(&clock, &e->stages->globals);
    vm_tiles(I->work, tile_rows, I, back);
    if (e->stages) pass_tiles(e->stages, e->times, e->workers, &clock);
    bool again = false;
    for (int w = 0; w < e->workers; w++) again = again || e->unsettled[w];
    if (!again) break;
  }
  if (!back) return;
  double clock = e->stages ? base_seconds() : 0;
  vm_backward(I->work, NULL, NULL, vm_theta_adjoint(I->work));
  leaves_fold(I);
  if (e->stages) pass(&clock, &e->stages->adjoints);
}
