/* eval.h: the partial evaluator, for this folder: it runs a Stan program in which data are numbers
 * and parameters are nodes.
 *
 *   - Value: what an expression is worth: known numbers, or elements of graph nodes.
 *   - Axis: the iterations of a loop that is lifted: a Value with an axis holds one row per
 *     iteration, so a loop's body is evaluated once, for all iterations together.
 *   - Var: a variable: its Value now.
 *   - Eval: the state of one run over the program.
 *
 * Elements are row-major everywhere, matrices too; Stan's column-major order matters only at the
 * edges (parameters, output). The same evaluator, given numbers for the parameters, is an
 * interpreter: so generated quantities run, draw by draw.
 */
#ifndef PVI_EVAL_H
#define PVI_EVAL_H

#include "base/base.h"
#include "data/data.h"
#include "ir/ir.h"
#include "model/model.h"
#include "num/rng.h"
#include "stan/stan.h"

enum { MAX_DIMS = 8 };
/* Elements of one value, of a variable that the program declares, of all parameters: more than any
 * program needs, and few enough that sizes do not overflow and a mistaken size is told at once. */
enum { MOST_ELEMENTS = 1 << 30, MOST_DECLARED = 1 << 28, MOST_PARAMETERS = 1 << 25 };

typedef struct Axis {
  int32_t rows;
  const struct Axis *parent;  /* a subset of its rows (a branch on data), or NULL */
  const int32_t *parent_rows; /* row of the parent for each row */
  const int32_t *iteration;   /* row of the loop itself for each row */
} Axis;

/* Element of an unknown Value: element `elem` of a node (width 0), or, in row r, element r width +
 * elem. */
typedef struct {
  Node node;
  int32_t elem, width;
} Ref;

/* A Value that is no tuple is in one of three states: known, the numbers v; unknown, all of it one
 * node; or unknown, each element a Ref, so that single ones can be replaced. Refs may have been
 * joined to a node as well; the node is then the same elements. Whoever changes an element calls
 * value_own first: what is shared is copied, never changed. */
typedef struct Value {
  TypeKind kind;
  int array_dims; /* of ndims */
  int ndims;
  int32_t dims[MAX_DIMS];
  int32_t n;        /* elements (per row) */
  const Axis *axis; /* NULL: the same in every iteration */
  bool known;
  bool shared;          /* somebody else may hold it: copy before changing an element */
  bool likelihood;      /* a density of data is in it */
  double *v;            /* known: [rows x] n numbers */
  Node node;            /* unknown: [rows x] n elements, or NO_NODE: then refs */
  Ref *refs;            /* unknown: n elements */
  struct Value **items; /* tuple: its nitems items; an array of tuples: the tuples (tuples.c) */
  int nitems;
} Value;

typedef struct Lift Lift;

typedef struct {
  Value *value;
  const Decl *decl;
  const Lift *lift;  /* the lifted loop inside which it is declared */
  const Value *mask; /* E->mask where it is declared: draws that had left before never see it */
} Var;

/* The outcome of a density statement in canonical form (outcome.c). */
typedef struct {
  DistId dist;
  bool known; /* there is a canonical form */
  int npar;
  int32_t width;            /* categorical: categories; else 0 */
  Value *y, *par[3], *size; /* size: trials of a binomial */
} Outcome;

/* Into which observations an increment of a loop falls (factors.c). */
typedef struct {
  const Stmt *s;
  int level; /* iterations of the loops around it are told apart down to this one; 1: outermost */
  bool elements; /* every element of its outcome is an observation */
} Factor;
typedef struct Factors {
  Factor *items;
  int n;
} Factors;

/* The loops that are running, innermost first. */
typedef struct Nest {
  const struct Nest *outer;
  int depth;    /* 1: the outermost */
  int32_t tick; /* number of the iteration, or of all iterations where it is lifted */
} Nest;

/* An outcome that is an expression of data and parameters: does it count as data? */
typedef struct {
  const Expr *e;
  bool data;
} Shifted;

/* One increment of the log density. */
typedef struct {
  Node node;        /* rows x each elements (lifted), or `each`: one per observation */
  int32_t each;     /* observations of an iteration: 1, or the elements of the outcome */
  const Axis *axis; /* lifted loop */
  int loop;         /* number of the outermost loop instance around it, -1: none */
  int32_t iteration;
  int32_t group; /* what has the same number in the same iteration is one observation */
  Loc loc;
  const char *name; /* distribution, or "target" */
  bool bare;        /* without any density: likelihood when its loop has one, else prior */
  bool guarded;     /* it counts in some draws only */
  int dist;         /* canonical DistId of the outcome, or -1: unknown */
  int npar;
  int32_t width;
  Node par[3];            /* rows x width elements */
  const double *y, *size; /* rows; size may be NULL */
  Node sim;               /* rows: a simulated outcome, or NO_NODE */
} Site;

/* A user's density that is run as if its body stood where it is called (inlining.c). */
typedef struct Inlined {
  const FunDef *f;
  const Decl *sum;  /* the variable that it adds up and returns, or NULL */
  int depth;        /* E->depth of its body */
  int32_t n;        /* elements of its outcome */
  Loc loc;          /* where it is called, */
  const char *name; /* and as what */
  Value *loose;     /* what belongs to no observation in particular, so far */
  struct Inlined *outer;
} Inlined;

/* LEFT: the draws for which it was run have left by break, continue, return or reject; others go on
 * (branches.c). */
typedef enum { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE, FLOW_RETURN, FLOW_LEFT } Flow;

/* What some draws return. */
typedef struct {
  Value *condition, *value;
} Return;

/* The running function and, in it, the running loop. */
typedef struct {
  Value *function_guard;         /* E->guard where the function was called, */
  const Axis *axis;              /* and E->axis */
  Value *of_rows;                /* what rows have returned that left before others, or NULL */
  Value *loop_guard, *loop_mask; /* E->guard and E->mask where the iteration began */
  Value *broken;                 /* draws that have left the loop, or NULL: none */
  Return *returns;
  int nreturns, cap_returns;
} Scope;
typedef struct {
  Value *loop_guard, *loop_mask, *broken, *mask;
} LoopScope;

/* The evaluation of one draw (follow.c). */
typedef struct {
  Node node;
  int32_t count;
  const double *numbers;
} Decision;
typedef struct {
  Arena *arena;
  const double *inputs; /* of the graph */
  double **numbers;     /* of the nodes so far: numbers[node][element] */
  int32_t known;        /* so many nodes have theirs */
  size_t cap;
  Decision *decisions;
  size_t ndecisions, cap_decisions;
} Draw;
const double *draw_numbers(Draw *d, const Graph *g, Node node);

/* What an Eval says to whoever made it; attempts do not take it back. */
typedef struct {
  bool needs_draw;  /* a decision depends on parameters */
  bool conditional; /* conditions on parameters have been met */
} EvalNotes;

/* Of a loop: how often it could be lifted, and how often it could not. */
typedef struct {
  const Stmt *loop;
  long lifted, failed;
} Habit;
enum { HABITS = 256 };

/* What an op gave of these numbers, which programs ask for again and again: the logarithm of a
 * probability in every iteration. */
typedef struct {
  unsigned op;
  double x[IR_MAX_ARGS], value;
} Result;
enum { RESULT_BITS = 8, RESULTS = 1 << RESULT_BITS };

/* What an expression (numbers.c) or a statement (number_steps.c) on single numbers has become, by
 * its address. */
typedef struct Num Num;
typedef struct Step Step;
typedef struct Code {
  const void *of;
  const Num *number;
  const Step *step;
  struct Code *next;
} Code;
enum { CODE_BITS = 8 };
typedef struct {
  Arena *arena; /* none in which Values live */
  Code *first[1 << CODE_BITS];
} Codes;

/* A call that is being evaluated, and the one around it. */
typedef struct Attempted {
  const FunDef *f;
  const struct Attempted *outer;
} Attempted;

/* Where calls of functions may be evaluated draw by draw (run_calls.c): those that are, and what is
 * told of them. */
typedef struct {
  const ModelOptions *options;
  size_t dim; /* unconstrained parameters */
  struct Call *first;
  const struct Attempted *attempted; /* calls that are being evaluated for all draws */
  CallInfo *infos;                   /* one a function */
  size_t ninfos, cap_infos;
} Calls;

typedef struct Eval {
  Ctx *ctx;
  Arena *arena; /* where Values live */
  Graph *graph;
  const Program *program;
  bool unroll;    /* every loop runs one by one: for tests, which compare both ways */
  Value **packed; /* Values whose elements were joined to a node while an attempt was under way */
  size_t npacked, cap_packed;
  int attempts; /* under way: see Attempt */
  Var *frame;   /* variables of the running block or function */
  int depth;    /* of user functions */

  const Axis *axis;
  Lift *lift;                 /* the loop being lifted, or NULL */
  Value *guard, *live, *mask; /* the draws for which statements count (branches.c), or NULL */
  Scope scope;
  bool numbers;      /* every Value is known: generated quantities of a draw (numbers.c) */
  Habit *habits;     /* [HABITS] of loops, by their addresses; NULL: they are not remembered */
  Result *results;   /* [RESULTS], or NULL: they are not remembered */
  Codes *codes;      /* with numbers: what the program has become */
  Draw *draw;        /* the draw for which the program is evaluated, or NULL: for all */
  EvalNotes *shared; /* never NULL */
  Calls *calls;      /* NULL: none may be evaluated draw by draw */
  Value *result;     /* of a user function */
  /* what the run yields */
  Site *sites;
  size_t nsites, cap_sites; /* likelihood */
  Shifted *shifted;
  size_t nshifted, cap_shifted;
  Value **prior;
  size_t nprior, cap_prior; /* scalars */
  Value **jacobian;
  size_t njacobian, cap_jacobian;
  Value **rejected;
  size_t nrejected, cap_rejected; /* scalars: positive in draws that the program rejects */
  LoopInfo *loops;
  size_t nloops, cap_loops;
  int loop; /* number of the running outermost loop instance, -1 */
  int32_t iteration;
  int loop_count;
  Inlined *inlined;       /* the user's density that is run so, or NULL */
  const Factors *factors; /* of that loop */
  int loop_depth;         /* E->depth where it stands */
  const Stmt *statement;  /* the running one of its body, in the same function */
  const Nest *nest;
  int32_t ticks;
  int lift_depth, lift_function; /* Nest.depth and E->depth of the loop being lifted */
  bool prints;                   /* what the program prints is told */
  bool quiet;         /* no increments are recorded (generated quantities, transformed data) */
  const Stmt *adding; /* the running increment */
  const Stmt *const *guess; /* statements that make observations: ModelOptions */
  int nguess;
  const long *observe; /* lines whose increments are observations because the user says so */
  int nobserve;
  bool *observe_found; /* of each: an increment was made there */
  /* Where a cumulative function of data counts as an observation: in what is added, not in what is
   * taken off (a truncation), and not in a density of parameters; a probability itself, and not its
   * logarithm, only where it stands in an increment. */
  bool negative, of_parameters, increment;
  Loc density;    /* of the builtin density or function being evaluated */
  bool integral;  /* the rows of the axis are nodes of a quadrature: what differs between them is no
                     data */
  RngStream *rng; /* for _rng functions, or NULL: not allowed */
  bool simulate;  /* _rng functions make noise nodes: the program as a differentiable simulator */
  int32_t streams; /* noise nodes made so far */
} Eval;

/* Is this the run of one draw, its parameters numbers? Then trouble with them is the draw's, not a
 * mistake of the user. Such a run forgets its Values draw by draw, so that they must not live where
 * the graph does; that is how it is known. */
static inline bool eval_is_draw(const Eval *E) { return E->arena != E->graph->arena; }

/* Do statements count for some draws only? */
static inline bool eval_is_conditional(const Eval *E) { return E->guard || E->live || E->mask; }

/* ---- value.c --------------------------------------------------------------------------------- */

int32_t value_total(const Value *v); /* rows x n */
/* The same of a Value to be made: fails, or gives the running loop up, where that is too many. */
int32_t value_count(Eval *E, const Axis *axis, int64_t n);
Value *value_like(Eval *E, const Value *shape); /* same kind and dims, nothing in it */
Value *value_shape(Eval *E, TypeKind kind, int array_dims, int ndims, const int32_t *dims);
Value *value_known(Eval *E, const Value *shape, const Axis *axis); /* zeros to fill in */
Value *value_real(Eval *E, double x);
Value *value_int(Eval *E, long x);
Value *value_vector(Eval *E, int32_t n); /* known zeros */
Value *value_of_node(Eval *E, const Value *shape, const Axis *axis,
                     Node node);    /* a constant node becomes known */
Node value_node(Eval *E, Value *v); /* [rows x] n elements */
Node value_node_total(Eval *E, Value *v, const Axis *axis,
                      int32_t n); /* broadcast to rows x n, or one element where all agree */
Value *value_on_axis(Eval *E, Value *v, const Axis *axis);
Pick value_pick(Eval *E, Value *v, int32_t row, int32_t k);
/* Is this element a number, and which, though others of the Value may depend on parameters? Is any?
 */
bool value_number_at(Eval *E, const Value *v, int32_t row, int32_t k, double *number);
bool value_has_data(Eval *E, const Value *v);
void value_own(Eval *E, Value **v); /* make it safe to change elements */
Value *value_reshape(Eval *E, Value *v, TypeKind kind, int array_dims, int ndims,
                     const int32_t *dims);
/* Elements picked by index: [rows x] n of them; axis NULL when the index is the same in all rows.
 */
Value *value_take(Eval *E, Value *v, const Value *shape, const Axis *axis, const int32_t *index);
Value *value_element(Eval *E, Value *v, int32_t k); /* a scalar */
Value *value_slice(Eval *E, Value *v, int32_t from,
                   int32_t n); /* consecutive elements, as a vector */
Value *value_take_or_zero(Eval *E, Value *v, const Value *shape,
                          const int32_t *index); /* index 0: zero; k: element k - 1 */
Value *value_tuple(Eval *E, Value *const *items, int n);
void value_put(Eval *E, Value **target, const Axis *axis, const int32_t *index, int32_t n,
               Value *from);
void value_spread(Eval *E, Value **v); /* a row for every iteration of the lifted loop */
Value *value_join(Eval *E, Value *const *parts, int nparts,
                  const Value *shape); /* all elements one after the other */

/* Elementwise op over Values: numbers are computed, the rest becomes a node. Scalars are broadcast.
 */
Value *value_map(Eval *E, unsigned op, Value *const *args);
Value *map1(Eval *E, unsigned op, Value *a);
Value *map2(Eval *E, unsigned op, Value *a, Value *b);
Value *map3(Eval *E, unsigned op, Value *a, Value *b, Value *c);
Value *map4(Eval *E, unsigned op, Value *a, Value *b, Value *c, Value *d);
Value *value_reduce(Eval *E, unsigned op, Value *v); /* SUM or LSE over all n elements: a real */
/* The same of every `width` consecutive elements: shape->n results. */
Value *value_reduce_rows(Eval *E, unsigned op, Value *v, int32_t width, const Value *shape);
Value *value_sum(Eval *E, Value *v);
Value *value_mean(Eval *E, Value *v);
/* a: rows x inner, b: inner x cols; shape: of the product, as Stan has it. */
typedef struct {
  int32_t rows, inner, cols;
} MatrixProduct;
Value *value_matmul(Eval *E, Value *a, Value *b, MatrixProduct size, const Value *shape);
Value *value_transpose(Eval *E, Value *a);

long value_int_of(Eval *E, Value *v, Loc loc,
                  const char *what); /* a known int that is the same in all iterations */

/* ---- expr.c, stmt.c, lift.c, functions.c, dists.c, constraints.c ----------------------------- */

Value *eval_expr(Eval *E, const Expr *e);
Value *eval_general(Eval *E, const Expr *e); /* the same, of single numbers too by Values */
void eval_deeper(Eval *E, Loc loc); /* fails where the stack has no room for one more level */
Value *eval_binary(Eval *E, Operator op, Value *a, Value *b, Loc loc);
double eval_int_operator(Eval *E, Operator op, double a, double b, Loc loc);
/* The place, from 0, that an index names; fails where it is out of range. */
int32_t eval_position(Eval *E, double i, int32_t dim, Loc loc);
/* Kind of what remains of a vector or matrix when the given inner dimensions are dropped. */
TypeKind eval_remaining_kind(TypeKind kind, bool first_dropped, bool second_dropped);
bool eval_is_density_name(const char *name); /* ..._lpdf, ..._lpmf and their _lup forms */
bool eval_is_cdf_name(const char *name);     /* ..._cdf, ..._lcdf, ..._lccdf */
Value *eval_user(Eval *E, const FunDef *f, Value **args, Loc loc);
/* The same where arguments have the kinds that the function declares: by a RUN node where it cannot
 * be evaluated for all draws at once (run_calls.c); for all draws. */
Value *run_call(Eval *E, const FunDef *f, Value **args, Loc loc);
Value *eval_body(Eval *E, const FunDef *f, Value **args, Loc loc);
void eval_args(Eval *E, const Expr *call, Value **args);
Value *eval_user_call(Eval *E, const Expr *call, Value **args); /* marked where it is of data */
Flow eval_stmt(Eval *E, const Stmt *s);
Flow eval_block(Eval *E, const Stmt *block);
void eval_dims(Eval *E, const Decl *d, Value *shape);
Value *eval_default(Eval *E, const Decl *d);      /* a variable that has no value yet */
double eval_not_set(TypeKind kind);               /* an element of it */
void eval_declare_number(Eval *E, const Decl *d); /* a variable that is a number has none yet */
/* branches.c: the rows of a known condition's axis where it is `wanted`; the draws for which
 * statements count; a choice per draw. */
Axis *eval_rows_where(Eval *E, const Value *c, bool wanted);
Axis *eval_rows_marked(Eval *E, const Axis *of, const bool *marked);
Value *eval_condition(Eval *E);
Value *eval_choose(Eval *E, Value *c, Value *yes, Value *no);
Value *eval_either(Eval *E, const Expr *ternary, Value *c); /* both sides, chosen between */
Flow eval_if(Eval *E, const Stmt *s);
Flow eval_break(Eval *E);
Flow eval_continue(Eval *E);
Flow eval_return(Eval *E, Value *v);
Flow eval_reject(Eval *E, const Stmt *s, const char *text);
void eval_reject_where(Eval *E, Value *c);        /* of the draws for which statements count */
Value *scope_function(Eval *E, const Stmt *body); /* runs it; what it returns, or NULL */
void scope_enter_loop(Eval *E, LoopScope *l);
void scope_iterate(Eval *E, const LoopScope *l);
void scope_leave_loop(Eval *E, const LoopScope *l);
/* A value that decides what the program does next: where the program is evaluated for one draw, its
 * numbers. */
Value *eval_decided(Eval *E, Value *v);
/* Fails because a decision depends on parameters. */
_Noreturn void eval_needs_draw(Eval *E, Loc loc, const char *why);
Value *eval_as_likelihood(Eval *E, Value *v); /* a copy that counts as a density of data */
/* Is a cumulative function of y an observation here? */
bool eval_observes(const Eval *E, DistFun fun, const Value *y);
/* log F, or of DF_LCCDF log(1 - F), of a builtin distribution: one element per outcome. */
Value *dist_log_cdf(Eval *E, DistId id, DistFun fun, Value **a, int n, Loc loc);
/* sites.c: an increment, one element per observation; outcome: what it says of the outcome, or
 * NULL. */
void eval_add_target(Eval *E, Value *pointwise, Loc loc, const char *name, const Outcome *outcome);
/* Makes one site of two whose elements are the same observations, in some draws and in others;
 * false: they are not. */
bool sites_join(Eval *E, size_t into, size_t from);
void eval_add_jacobian(Eval *E, Value *v);
void eval_add_rejected(Eval *E, Value *condition);
Value *eval_guarded(Eval *E,
                    Value *v); /* what is to be added: 0 in draws for which it does not count */
bool eval_is_observed(const Eval *E, Loc loc); /* the user says so of this line */
/* increments.c: target += e; y ~ dist(...) */
void eval_increment(Eval *E, const Expr *e);
void eval_tilde(Eval *E, const Stmt *s);
Outcome outcome_of(Eval *E, DistId id, Value **args); /* args[0] is the outcome */
void outcome_place(Eval *E, Site *site, const Outcome *o, int32_t n);

/* Index lists: for every row and output element, the element of the base. */
typedef struct {
  const Axis *axis;
  int32_t *index;
  Value shape; /* kind, dims and n of what is picked */
} Selection;
Selection eval_selection(Eval *E, const Value *base, const Index *indexes, int nindexes, Loc loc);

/* tuples.c: an array of tuples, row-major; the same kind of tuple as v, of other items; a variable
 * that has no value yet; elements; the same with an item, or some elements, replaced. */
Value *tuple_array(Eval *E, const Value *shape, Value *const *items);
Value *tuple_like(Eval *E, const Value *v, Value *const *items);
Value *tuple_default(Eval *E, const Decl *d);
Value *tuple_select(Eval *E, const Value *v, const Selection *s);
Value *tuple_with(Eval *E, const Value *v, int32_t at, Value *item);
Value *tuple_replace(Eval *E, const Value *v, const Selection *s, Value *from);

/* Evaluate body(E, self) once for all of `rows` iterations, that change what the statement changes;
 * false: they depend on each other, everything is as before. Inside, lift_index is the column from,
 * from + 1, ... */
typedef void LiftBody(Eval *E, void *self);
bool lift_body(Eval *E, int32_t rows, const Stmt *changes, LiftBody *body, void *self,
               const char **why);
Value *lift_index(Eval *E, long from);
/* n iterations that are no loop in Stan: all together, or one by one, E->iteration telling which.
 */
void eval_each(Eval *E, const Expr *e, int32_t n, LiftBody *lifted, LiftBody *one, void *self);
bool lift_loop(Eval *E, const Stmt *s, long from, long to, const char **why);

/* An evaluation that may be taken back: nodes, sites and messages made since are forgotten, and
 * Values from before are as they were. Usage:
 *
 *     Attempt a;
 *     if (setjmp(*attempt_begin(E, &a))) { attempt_undo(E, &a); return ...; }
 *     ... evaluate ...
 *     attempt_end(E, &a);
 */
typedef struct {
  Eval before;
  int32_t nodes;
  size_t messages, errors, decisions;
  jmp_buf here, *outer;
} Attempt;
jmp_buf *attempt_begin(Eval *E, Attempt *a);
void attempt_end(Eval *E, Attempt *a);  /* it stays */
void attempt_undo(Eval *E, Attempt *a); /* after it failed, or in the place of attempt_end */
void lift_read(Eval *E, Var *var, const Axis *axis, const int32_t *index,
               int32_t n); /* index NULL: all elements */
void lift_write(Eval *E, Var *var, const Axis *axis, const int32_t *index, int32_t n);
/* The condition by which a variable, whose value is `then` where it holds, is chosen. */
Value *lift_choice(Eval *E, Var *var, Value *c, const Value *then);
_Noreturn void lift_bail(Eval *E, const char *why);
/* The same, because of a size, one a row of the axis: the loop may be tried again in parts. */
_Noreturn void lift_differs(Eval *E, const Axis *axis, const double *sizes);

/* inlining.c. inline_density: false: it cannot be, and nothing was done. The others are for the
 * statements and terms of its body: is the variable the sum; were they increments, not what they
 * seem; a term that belongs to no element; may the elements of a vector be told apart? */
bool inline_density(Eval *E, const FunDef *f, Value **args, Loc loc, const char *name);
bool inline_is_sum(const Eval *E, const Expr *e);
bool inline_declares_sum(const Eval *E, const Decl *d);
bool inline_assign(Eval *E, const Stmt *s);
bool inline_return(Eval *E, const Stmt *s);
void inline_loose(Eval *E, Value *v);
bool inline_elementwise_sum(const Eval *E, const Expr *sum);
/* Is there data in a sum of which every summand has its own, as y has in dot_self(y - X * b)? */
bool inline_has_outcome(const Eval *E, const Expr *sum);
bool fun_is_elementwise(FunId id); /* functions.c */
unsigned fun_op(FunId id);         /* of an elementwise one, else 0 */

/* numbers.c: expressions whose type is int or real, where every value is known: may e be evaluated
 * so; its number; the same as a Value. */
static inline bool number_typed(const Expr *e) {
  return e->type && !e->type->array_dims && (e->type->kind == TY_INT || e->type->kind == TY_REAL);
}
static inline bool number_is(const Eval *E, const Expr *e) {
  return E->numbers && !E->axis && number_typed(e);
}
double number_of(Eval *E, const Expr *e);
Codes *codes_make(Arena *a);
Code *code_of(Codes *c, const void *of); /* made where there is none yet */
/* Of an expression that is a number, or a place; its number. Each level of an expression takes at
 * most so much of the stack. */
enum { NUMBER_STACK = 2048 };
const Num *number_code(Eval *E, const Expr *e);
double number_get(Eval *E, const Num *n);
double number_fold(Eval *E, unsigned op, const double *x); /* an op of IR_MAX_ARGS numbers */
Value *number_value(Eval *E, TypeKind kind, double x);
/* A variable becomes a number; is this an assignment of a number to a place; then: done. */
void number_set(Eval *E, Var *var, TypeKind kind, double x);
bool number_assigns(const Stmt *s);
void number_assign(Eval *E, const Stmt *s, const Num *to, const Num *from);
/* An operator that numbers have: its result. */
bool number_has_operator(Operator op);
double number_binary(Eval *E, Operator op, double a, double b, bool ints, Loc loc);
/* number_steps.c: a statement that is run again and again, where every value is known; NULL: as
 * any. A loop that is not lifted, body NULL: its own. */
const Step *step_of(Eval *E, const Stmt *s);
Flow step_run(Eval *E, const Step *p);
Flow eval_loop(Eval *E, const Stmt *s, long from, long to, const Step *body);
/* x[i], x[i, j], ... with single indexes, which are consecutive elements of x: is e so; a copy of
 * them; where new ones go. */
typedef struct {
  double *to;
  Value shape;
} NumberBlock;
bool number_is_block(const Eval *E, const Expr *e);
Value *number_block(Eval *E, const Expr *e);
NumberBlock number_block_to(Eval *E, const Expr *e);

const Factors *factors_of(Eval *E, const Stmt *loop);
Factor factors_find(const Factors *f, const Stmt *s);

bool eval_reduce_sum(
    Eval *E,
    const Expr *call); /* as an increment: one observation per element; false: it is none */

typedef Value *FunCode(Eval *E, Value **args, int nargs, const Expr *call);
Value *eval_function(Eval *E, FunId id, Value **args, int nargs, const Expr *call);

/* fun_laplace.c: a call of CALL_LAPLACE; args[k] NULL: a function. */
Value *eval_laplace(Eval *E, Value **args, const Expr *call);

Value *eval_ode(Eval *E, OdeMethod method, Value **args, int nargs,
                const Expr *call); /* fun_ode.c */
Value *eval_dae(Eval *E, Value **args, int nargs, const Expr *call);

/* Pointwise log density of a builtin distribution: one element per observation. args[0] is the
 * outcome. */
Value *dist_lpdf(Eval *E, DistId id, Value **args, int nargs, Loc loc);
Value *dist_call(Eval *E, DistId id, DistFun fun, Value **args, int nargs,
                 Loc loc); /* the sum; cdfs; rng */
/* The log probability between two ends, either of which may be NULL. */
Value *dist_truncation(Eval *E, DistId id, Value **args, int nargs, Value *const ends[2], Loc loc);

/* support.c: ctx_fail where sizes do not go together as the row says, */
void fun_check_sizes(Eval *E, FunId id, Value *const *args, int nargs, Loc loc);
void dist_check_sizes(Eval *E, DistId id, DistFun fun, Value *const *args, int nargs, Loc loc);
/* and where data are outside of the support, of a cumulative function in its parameters only. */
void dist_check_support(Eval *E, DistId id, DistFun fun, Value **args, int nargs, Loc loc);
/* Is every number of parameter k of a generator allowed? */
bool dist_parameters_allowed(DistId id, const Value *v, int k);
Value *dist_rng(Eval *E, DistId id, Value **args, int nargs, Loc loc); /* numbers, or noise nodes */
/* A draw as a differentiable function of the parameters and of noise nodes; NULL where
 * there is none. args: parameters. */
Value *dist_simulate(Eval *E, DistId id, Value **args, int nargs);

/* constraints.c: a parameter from the unconstrained vector; adds its Jacobian and moves the offset
 * behind its numbers. */
Value *constrain(Eval *E, const Decl *d, int32_t *offset);
/* ctx_error where known values do not keep what is declared; whose: "the data". */
void constrain_check(Eval *E, const Decl *d, const Value *v, const char *whose);

#endif
