/* cost.c: how much arithmetic and memory traffic a tape asks for, counted on its instructions.
 *
 * An elementwise op costs what its row of ops.def says: every operator one, every function
 * CALL_FLOPS; backward, its partial derivatives and one multiply-add per operand.
 */
#include "vm/vm_int.h"

#include <ctype.h>
#include <string.h>

static const struct {
  const char *value, *shared, *partials;
} rows[IR_OP_COUNT] = {
#define OP(NAME, arity, value, shared, partials, domain) [IR_##NAME] = {#value, #shared, #partials},
#include "ir/ops.def"
#undef OP
};

/* Functions whose result is one instruction or so. */
static bool cheap(const char *call) {
  static const char *const names[] = {"v_max(", "v_min(", "v_abs(", "v_sqrt(", "v_eq(",
                                      "v_lt(",  "v_gt(",  "v_le(",  "v_ge(",   "v_not("};
  for (size_t k = 0; k < sizeof names / sizeof *names; k++)
    if (!strncmp(call, names[k], strlen(names[k]))) return true;
  return false;
}

static double flops_of(const char *expression) {
  double n = 0;
  for (const char *s = expression; *s; s++) {
    bool follows = s > expression && s[-1] == ' '; /* a sign is no operator */
    if (strchr("+-*/", *s) && follows) n++;
    bool word = s == expression || !(isalnum((unsigned char)s[-1]) || s[-1] == '_');
    if (word && !strncmp(s, "v_", 2)) n += cheap(s) ? 1 : CALL_FLOPS;
  }
  return n;
}

static VmCost cost_of(const Instr *i, double n);

/* A step from each time to the next, six evaluations of states and sensitivities each; how many
 * there are is known only while they are made. */
static double ode_flops(const IrOde *o) {
  double evaluation = 0, states = o->states,
         sensitivities = o->params + (o->from_state ? states : 0);
  for (Node k = 0; k < o->graph->count; k++) {
    const IrNode *x = ir_node(o->graph, k);
    Instr i = {.op = x->op, .nargs = x->nargs, .width = x->attr};
    if (ir_is_map(x->op)) evaluation += cost_of(&i, x->n).flops;
  }
  double combination =
      2 * 26 * states * (1 + sensitivities); /* Dormand and Prince's coefficients */
  return o->ntimes * (6 * (evaluation + 2 * states * states * sensitivities) + combination);
}

/* Of one instruction, forward and backward, over n elements. */
static VmCost cost_of(const Instr *i, double n) {
  double width = i->width, terms;
  switch (i->op) {
  case IR_CONST:
  case IR_NOISE: return (VmCost){0, 8 * n};
  case IR_OUTER: return (VmCost){8 * n, 24 * n}; /* about two terms, forward and back */
  case IR_GATHER:
  case IR_PACK: return (VmCost){n, 40 * n};
  case IR_ODE: return (VmCost){ode_flops(i->ode), 0};
  case IR_RUN: return (VmCost){0, 8 * n}; /* what a program does is not counted */
  case IR_AFFINE: terms = (double)(i->affine->ndense + i->affine->nsparse); break;
  case IR_MIXTURE: { /* a logarithm and a quotient; products, sums and adjoints of its terms */
    double each = (double)(i->mixture->width * i->mixture->terms);
    return (VmCost){n * (CALL_FLOPS + 1 + 6 * each), 8 * n * (3 + 4 * each)};
  }
  case IR_MATVEC: terms = width; break;
  case IR_SUM:
    if (i->summand) return cost_of(i->summand, i->summand->n);
    return (VmCost){2 * n * width, 8 * n * (2 + 3 * width)};
  case IR_CUMSUM: return (VmCost){2 * n, 48 * n};
  case IR_LSE: {
    double of = i->summand ? 2 : 1;
    return (VmCost){n * width * (2 * CALL_FLOPS + 3 + of), 8 * n * (3 + 4 * width * of)};
  }
  case IR_EIGEN: return (VmCost){15 * n * width, 48 * n};
  case IR_MATMUL: { /* numbers times rows: a multiply-add each way; rows times rows: one more */
    bool numbers = i->in[0].place == IN_DATA || i->in[1].place == IN_DATA;
    return (VmCost){(numbers ? 4 : 6) * n * width, 8 * n * (3 + (numbers ? 3 : 5) * width)};
  }
  default: {
    double pulled = 0;
    for (int k = 0; k < i->nargs; k++) pulled += i->in[k].place != IN_DATA;
    double flops = flops_of(rows[i->op].value) + flops_of(rows[i->op].shared) +
                   flops_of(rows[i->op].partials) + 2 * pulled;
    return (VmCost){n * flops, 8 * n * (3 + 4 * pulled)};
  }
  }
  return (VmCost){4 * n * terms,
                  8 * n * (2 + 3 * terms)}; /* products with constants: a multiply-add each way */
}

static void add(VmCost *sum, VmCost c) {
  sum->flops += c.flops;
  sum->bytes += c.bytes;
}

VmCost vm_cost(const Tape *t) {
  VmCost sum = {0};
  for (int k = 0; k < t->count; k++) add(&sum, cost_of(&t->code[k], t->code[k].n));
  for (int b = 0; b < t->nblocks; b++)
    for (int k = 0; k < t->blocks[b].count; k++)
      add(&sum, cost_of(&t->blocks[b].code[k], (double)t->blocks[b].rows * t->blocks[b].code[k].n));
  return sum;
}
