/* product_means.c: mean densities made of means over one parameter each.
 *
 * Two tapes. Below, the leaves are evaluated on nodes of every parameter's noise, all parameters at
 * the same one, for a leaf sees one of them: equidistant nodes, which resolve a step however wide q
 * is, up to a distance beyond which nothing is. Above, the logarithms of their means are the
 * inputs, one draw of them.
 */
#include "infer/product_means.h"

#include <math.h>
#include <string.h>

struct ProductMeans {
  const Observed *o;
  const Products *form;
  const Q *q;
  double weight; /* of the score */
  const Kernels *k;
  Work *below, *above;
  QDraws draws;
  size_t M, ld;       /* nodes */
  double *log_weight; /* of the nodes */
  double *theta, *adj_theta;
  double *mean, *adj_mean; /* [leaves x LANES]: logarithms of means, in every lane the same */
  double *row, *room;      /* of every observation: its score; per worker: a row of nodes */
  const double *phi;
};

bool product_means_known(const Observed *o, const Q *q) {
  const Family *f = family_of(q->family);
  return o->products && f->independent && !f->weights && !q->npoint;
}

bool product_means_apply(const Observed *o, const Target *t, const Q *q) {
  return t->score == SCORE_log && t->lambda != 0 && product_means_known(o, q);
}

/* ---- making it ------------------------------------------------------------------------------- */

/* Leaves: one block a node. */
static Tape *tape_below(Arena *a, const ProductMeans *p) {
  const Products *form = p->form;
  VmBlock *blocks = NEW_ARRAY(a, VmBlock, form->nnodes + 1);
  for (size_t k = 0; k < form->nnodes; k++) {
    const ProductLeaves *l = &form->nodes[k];
    blocks[k] = (VmBlock){.heads = {l->node, NO_NODE, NO_NODE, NO_NODE, NO_NODE},
                          .rows = ir_size(form->below, l->node),
                          .select = l->select,
                          .nselect = l->n};
  }
  return vm_plan(a, &(VmPlan){.graph = form->below,
                              .dim = p->q->dim,
                              .blocks = blocks,
                              .nblocks = (int)form->nnodes,
                              .join = VM_JOIN_NONE});
}

static Tape *tape_above(Arena *a, const ProductMeans *p) {
  const Model *m = p->o->model;
  const ModelRows *rows = &p->o->rows;
  VmBlock *blocks = NEW_ARRAY(a, VmBlock, m->nblocks + 1);
  for (int b = 0; b < m->nblocks; b++)
    blocks[b] = (VmBlock){.heads = {p->form->roots[b], NO_NODE, NO_NODE, NO_NODE, NO_NODE},
                          .rows = m->blocks[b].rows,
                          .select = rows->row + rows->first[b],
                          .nselect = (int32_t)(rows->first[b + 1] - rows->first[b])};
  return vm_plan(a, &(VmPlan){.graph = p->form->above,
                              .dim = (size_t)p->form->leaves,
                              .blocks = blocks,
                              .nblocks = m->nblocks});
}

/* The same nodes of every parameter's noise, normal ones. */
static void make_nodes(Arena *a, ProductMeans *p) {
  const double reach = 8.5;
  double h = 2 * reach / (double)p->M, sum = 0;
  size_t rows = q_noise(p->q);
  p->draws = q_draws(a, p->q, p->M, p->ld, p->k);
  p->log_weight = NEW_ARRAY(a, double, p->ld);
  for (size_t j = 0; j < p->ld; j++) {
    double x = -reach + ((double)(j < p->M ? j : 0) + 0.5) * h;
    for (size_t k = 0; k < rows; k++) p->draws.u[k * p->ld + j] = x;
    p->log_weight[j] = -0.5 * x * x;
    if (j < p->M) sum += exp(p->log_weight[j]);
  }
  for (size_t j = 0; j < p->ld; j++) p->log_weight[j] -= log(sum);
}

ProductMeans *product_means_make(Arena *a, const Observed *o, const Target *t, const Q *q,
                                 Pool *pool) {
  ProductMeans *p = NEW(a, ProductMeans);
  *p = (ProductMeans){.o = o, .form = o->products, .q = q, .weight = t->score_weight};
  p->M = 2 * (t->nodes ? t->nodes : EXACT_NODES);
  p->below = (t->forward ? vm_work_forward : vm_work)(a, tape_below(a, p), p->M, pool);
  p->above = (t->forward ? vm_work_forward : vm_work)(a, tape_above(a, p), 1, pool);
  p->k = vm_kernels(p->below);
  p->ld = vm_ld(p->below);
  p->theta = vm_theta(p->below);
  p->adj_theta = vm_theta_adjoint(p->below);
  p->mean = vm_theta(p->above);
  p->adj_mean = vm_theta_adjoint(p->above);
  p->row = NEW_ARRAY(a, double, o->n);
  p->room = NEW_ARRAY(a, double, (size_t)vm_workers(p->below) * p->ld);
  make_nodes(a, p);
  return p;
}

/* ---- one evaluation -------------------------------------------------------------------------- */

/* The logarithm of the mean of exp over the nodes; share: what each of them adds to it, over it. */
static double log_mean(const ProductMeans *p, const double *value, double *share) {
  memcpy(share, p->log_weight, p->M * sizeof *share);
  p->k->add(share, value, p->M);
  return p->k->softmax(share, share, p->M);
}

static void leaves_forward(void *self, const TileView *t) {
  ProductMeans *p = self;
  double *share = p->room + (size_t)t->worker * p->ld;
  for (size_t r = 0; r < t->rows; r++) {
    double mean = log_mean(p, t->heads[0] + r * t->ld, share);
    for (size_t j = 0; j < LANES; j++) p->mean[(t->row + r) * LANES + j] = mean;
  }
}

static void leaves_backward(void *self, const TileView *t) {
  ProductMeans *p = self;
  for (size_t r = 0; r < t->rows; r++) {
    double *adj = t->adj[0] + r * t->ld, g = p->adj_mean[(t->row + r) * LANES];
    log_mean(p, t->heads[0] + r * t->ld, adj);
    p->k->rescale(adj, g, 0, p->M);
  }
}

static void score_tile(void *self, const TileView *t) {
  ProductMeans *p = self;
  for (size_t r = 0; r < t->rows; r++) {
    size_t k = t->row + r;
    p->row[k] = t->heads[0][r * t->ld];
    if (t->adj[0]) t->adj[0][r * t->ld] = p->weight * observed_count(p->o, k);
  }
}

bool product_means_eval(ProductMeans *p, const double *phi, PredictiveValue *v, double *grad) {
  q_draw(p->q, phi, &p->draws, p->theta);
  vm_forward(p->below, p->theta);
  vm_tiles(p->below, leaves_forward, p, false);
  vm_forward(p->above, p->mean);
  vm_tiles(p->above, score_tile, p, grad != NULL);
  v->score = observed_sum(p->o, p->row);
  v->value = p->weight * v->score;
  v->regularizer = 0;
  if (!isfinite(v->value)) return false;
  if (!grad) return true;
  vm_backward(p->above, NULL, NULL, p->adj_mean);
  vm_tiles(p->below, leaves_backward, p, true);
  vm_backward(p->below, NULL, NULL, p->adj_theta);
  memset(grad, 0, q_size(p->q) * sizeof *grad);
  q_adjoint(p->q, phi, &p->draws, p->adj_theta, NULL, grad);
  return true;
}

const double *product_means_rows(const ProductMeans *p) { return p->row; }

/* ---- scores ---------------------------------------------------------------------------------- */

/* The largest change of a score s, over 1 + |s|. */
static double change(const double *a, const double *b, size_t n) {
  double most = 0;
  for (size_t k = 0; k < n; k++)
    if (a[k] != b[k]) most = fmax(most, fabs(a[k] - b[k]) / (1 + fabs(b[k])));
  return most;
}

bool product_means_scores(Ctx *c, const Scoring *s, double *scores) {
  enum { FIRST = 32, MOST = 512 };
  double tolerance = fmax(s->tolerance, 1e-9), *now = NEW_ARRAY(&c->arena, double, s->o->n + 1);
  for (size_t nodes = FIRST; nodes <= MOST; nodes *= 2) {
    TempArena *temp = temp_open(c);
    Target t = {.score = SCORE_log, .score_weight = 1, .nodes = nodes, .forward = true};
    ProductMeans *p = product_means_make(&temp->arena, s->o, &t, s->q, s->pool);
    PredictiveValue v;
    product_means_eval(p, s->phi, &v, NULL);
    memcpy(now, product_means_rows(p), s->o->n * sizeof *now);
    temp_close(temp);
    bool settled = nodes > FIRST && change(scores, now, s->o->n) <= tolerance;
    memcpy(scores, now, s->o->n * sizeof *now);
    if (settled) return true;
  }
  return false;
}
