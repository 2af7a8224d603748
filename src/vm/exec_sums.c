/* exec_sums.c: instructions whose result is a sum over several elements, or a log sum exp of them.
 */
#include "vm/exec_int.h"

#include <string.h>

/* ---- sums ------------------------------------------------------------------------------------ */

/* The pointers behind the `width` operands of result e of a SUM or LSE. */
static void reduce_rows(const Frame *f, const Instr *i, size_t e, size_t first) {
  size_t width = (size_t)i->width;
  for (size_t w = 0; w < width; w++)
    f->s->in[w] =
        row_of(f, &i->in[0], e * width + w, first * width, f->s->splat + w * LANES, &f->s->step[w]);
}

/* Element e of an elementwise op, into out. */
static void map_element(const Frame *f, const Instr *i, size_t e, const double **in, size_t *step,
                        double *out) {
  for (int k = 0; k < i->nargs; k++)
    in[k] = row_of(f, &i->in[k], e, 0, f->s->splat + k * LANES, &step[k]);
  f->w->k->forward[i->op](out, in, step, f->n);
}

static void summand_forward(const Frame *f, const Instr *i) {
  const double *in[IR_MAX_ARGS];
  size_t step[IR_MAX_ARGS];
  double value[LANE_BLOCK];
  for (int32_t e = 0; e < i->summand->n; e++) {
    double *out = result_row(f, i, (size_t)(e / i->width));
    bool first = e % i->width == 0;
    map_element(f, i->summand, (size_t)e, in, step, first ? out : value);
    if (!first) f->w->k->add(out, value, f->n);
  }
}

/* The values are computed again: cheaper than to keep and fetch them. */
static void summand_backward(const Frame *f, const Instr *i) {
  const Instr *s = i->summand;
  const double *in[IR_MAX_ARGS];
  size_t step[IR_MAX_ARGS];
  double *adj[IR_MAX_ARGS], value[LANE_BLOCK];
  for (int32_t e = 0; e < s->n; e++) {
    map_element(f, s, (size_t)e, in, step, value);
    for (int k = 0; k < s->nargs; k++) adj[k] = adjoint_of(f, &s->in[k], (size_t)e, 0);
    f->w->k->backward[s->op](result_adjoint(f, i, (size_t)(e / i->width)), value, in, step, adj,
                             f->n);
  }
}

void exec_sum_forward(const Frame *f, const Instr *i, size_t n, size_t first) {
  if (i->summand) {
    summand_forward(f, i);
    return;
  }
  for (size_t e = 0; e < n; e++) {
    double *out = result_row(f, i, e);
    reduce_rows(f, i, e, first);
    for (size_t j = 0; j < f->n; j++)
      out[j] = f->s->in[0][f->s->step[0] * j % (f->s->step[0] ? f->n : LANES)];
    for (int32_t w = 1; w < i->width; w++) {
      if (f->s->step[w]) {
        f->w->k->add(out, f->s->in[w], f->n);
      } else {
        for (size_t j = 0; j < f->n; j++) out[j] += f->s->in[w][0];
      }
    }
  }
}

void exec_sum_backward(const Frame *f, const Instr *i, size_t n, size_t first) {
  if (i->summand) {
    summand_backward(f, i);
    return;
  }
  size_t width = (size_t)i->width;
  for (size_t e = 0; e < n; e++)
    for (size_t w = 0; w < width; w++) {
      double *adj = adjoint_of(f, &i->in[0], e * width + w, first * width);
      if (adj) f->w->k->add(adj, result_adjoint(f, i, e), f->n);
    }
}

/* ---- log sum exp ----------------------------------------------------------------------------- */

/* The rows behind both operands of the ADD whose sums a global LSE has: result e's. */
typedef struct {
  RowList a, b;
} RowPairs;

static RowPairs pair_rows(const Frame *f, const Instr *i, size_t e) {
  size_t width = (size_t)i->width;
  Scratch *s = f->s;
  for (size_t k = 0; k < 2 * width; k++)
    s->in[k] = row_of(f, &i->summand->in[k / width], e * width + k % width, 0, s->splat + k * LANES,
                      &s->step[k]);
  return (RowPairs){{s->in, s->step, width}, {s->in + width, s->step + width, width}};
}

/* The rows of a step of a chain: [a, b, exps], and adjoints of the first two. */
static ChainRows chain_rows(const Frame *f, const Instr *i) {
  Scratch *s = f->s;
  size_t width = (size_t)i->width, n = (size_t)i->n * width, step;
  const Operand *a = &i->summand->in[i->common - 1], *b = &i->summand->in[2 - i->common];
  const double **rows_b = s->in + width, **exps = rows_b + n;
  for (size_t w = 0; w < width; w++) {
    s->in[w] = row_of(f, a, w, 0, NULL, &step);
    s->adj[w] = f->out_adj ? adjoint_of(f, a, w, 0) : NULL;
  }
  for (size_t e = 0; e < n; e++) {
    rows_b[e] = row_of(f, b, e, 0, NULL, &step);
    exps[e] = f->shared + (i->exps + e) * f->ld;
    s->adj[width + e] = f->out_adj ? adjoint_of(f, b, e, 0) : NULL;
  }
  return (ChainRows){(size_t)i->n, width, s->in, rows_b, exps, s->adj, s->adj + width};
}

static void pairs_forward(const Frame *f, const Instr *i) {
  if (i->common) {
    ChainRows c = chain_rows(f, i);
    f->w->k->step(result_row(f, i, 0), f->ld, &c, f->n);
    return;
  }
  for (size_t e = 0; e < (size_t)i->n; e++) {
    RowPairs r = pair_rows(f, i, e);
    f->w->k->log_sum_exp_pairs(result_row(f, i, e), &r.a, &r.b, f->n);
  }
}

static void pairs_backward(const Frame *f, const Instr *i) {
  size_t width = (size_t)i->width;
  if (i->common) {
    ChainRows c = chain_rows(f, i);
    f->w->k->step_adjoint(result_adjoint(f, i, 0), result_row(f, i, 0), f->ld, &c, f->n);
    return;
  }
  for (size_t e = 0; e < (size_t)i->n; e++) {
    RowPairs r = pair_rows(f, i, e);
    for (size_t k = 0; k < 2 * width; k++)
      f->s->adj[k] = adjoint_of(f, &i->summand->in[k / width], e * width + k % width, 0);
    f->w->k->log_sum_exp_pairs_adjoint(result_adjoint(f, i, e), result_row(f, i, e), &r.a, &r.b,
                                       f->s->adj, f->n);
  }
}

void exec_lse_forward(const Frame *f, const Instr *i, size_t n, size_t first) {
  if (i->summand) {
    pairs_forward(f, i);
    return;
  }
  for (size_t e = 0; e < n; e++) {
    reduce_rows(f, i, e, first);
    RowList terms = {f->s->in, f->s->step, (size_t)i->width};
    f->w->k->log_sum_exp(result_row(f, i, e), &terms, f->n);
  }
}

void exec_lse_backward(const Frame *f, const Instr *i, size_t n, size_t first) {
  if (i->summand) {
    pairs_backward(f, i);
    return;
  }
  size_t width = (size_t)i->width;
  for (size_t e = 0; e < n; e++) {
    reduce_rows(f, i, e, first);
    for (size_t w = 0; w < width; w++)
      f->s->adj[w] = adjoint_of(f, &i->in[0], e * width + w, first * width);
    RowList terms = {f->s->in, f->s->step, width};
    f->w->k->log_sum_exp_adjoint(result_adjoint(f, i, e), result_row(f, i, e), &terms, f->s->adj,
                                 f->n);
  }
}

/* ---- affine functions of shared values ------------------------------------------------------- */

/* Pointers of an affine instruction for the rows of this tile. */
static AffineRows affine_rows(const Frame *f, const TapeAffine *t, bool adjoint) {
  Scratch *s = f->s;
  size_t D = t->ndense;
  AffineRows a = {.ndense = D,
                  .nsparse = t->nsparse,
                  .A = t->A + f->row * D,
                  .ld = f->ld,
                  .dense = s->in,
                  .base = s->in + D,
                  .dense_adj = s->adj,
                  .base_adj = s->adj + D,
                  .coef = s->coef,
                  .index = s->index};
  if (t->constant) a.constant = t->constant + f->row;
  for (size_t k = 0; k < D; k++) {
    s->in[k] = f->shared + t->dense[k] * f->ld;
    if (adjoint) s->adj[k] = f->boundary + t->dense_adj[k] * f->ld;
  }
  for (size_t k = 0; k < t->nsparse; k++) {
    s->in[D + k] = f->shared + t->base[k] * f->ld;
    if (adjoint) s->adj[D + k] = f->boundary + t->base_adj[k] * f->ld;
    s->coef[k] = t->coef[k] ? t->coef[k] + f->row : NULL;
    s->index[k] = t->index[k] + f->row;
  }
  return a;
}

void exec_affine_forward(const Frame *f, const Instr *i) {
  AffineRows a = affine_rows(f, i->affine, false);
  f->w->k->affine(result_row(f, i, 0), f->ld, &a, f->rows, f->n);
}

void exec_affine_backward(const Frame *f, const Instr *i) {
  AffineRows a = affine_rows(f, i->affine, true);
  f->w->k->affine_adjoint(result_adjoint(f, i, 0), f->ld, &a, f->rows, f->n);
}

/* ---- mixtures of shared exponentials --------------------------------------------------------- */

/* Pointers of a mixture for observation e of this tile. */
static MixtureRows mixture_of(const Frame *f, const TapeMixture *t, size_t e, bool adjoint) {
  size_t count = t->width * t->terms;
  const double **log = f->s->in, **exps = f->s->in + count;
  for (size_t k = 0; k < count; k++) {
    size_t at = t->index[k] ? (size_t)t->index[k][f->row + e] : 0;
    log[k] = f->shared + (t->base[k] + at) * f->ld;
    exps[k] = f->shared + (t->exps[k] + at) * f->ld;
    if (adjoint) f->s->adj[k] = f->boundary + (t->base_adj[k] + at) * f->ld;
  }
  return (MixtureRows){t->width, t->terms, log, exps, f->s->adj};
}

void exec_mixture_forward(const Frame *f, const Instr *i) {
  for (size_t e = 0; e < f->rows; e++) {
    MixtureRows m = mixture_of(f, i->mixture, e, false);
    f->w->k->mixture(result_row(f, i, e), &m, f->n);
  }
}

void exec_mixture_backward(const Frame *f, const Instr *i) {
  for (size_t e = 0; e < f->rows; e++) {
    MixtureRows m = mixture_of(f, i->mixture, e, true);
    f->w->k->mixture_adjoint(result_adjoint(f, i, e), result_row(f, i, e), &m, f->n);
  }
}

/* ---- cumulative sums ------------------------------------------------------------------------- */

void exec_cumsum_forward(const Frame *f, const Instr *i, size_t n) {
  for (size_t e = 0; e < n; e++) {
    double *out = result_row(f, i, e);
    copy_forward(f, out, &i->in[0], e, 0);
    if (e % (size_t)i->width) f->w->k->add(out, out - f->ld, f->n);
  }
}

void exec_cumsum_backward(const Frame *f, const Instr *i, size_t n) {
  for (size_t e = n; e-- > 0;) {
    double *g = result_adjoint(f, i, e);
    copy_backward(f, g, &i->in[0], e, 0);
    if (e % (size_t)i->width) f->w->k->add(g - f->ld, g, f->n);
  }
}
