/* stan.h: Program, the first noun: a Stan program as a checked tree.
 *
 *   stan_parse   text -> tree (lexer and recursive descent; keeps going after errors)
 *   stan_check   tree -> typed tree (names resolved, every Expr has its Type)
 *   stan_print_* any stage as text (--dump=tokens|tree|typed)
 *
 * The tree is allocated in the Ctx's arena and frozen after stan_check.
 */
#ifndef PVI_STAN_H
#define PVI_STAN_H

#include "base/base.h"

/* ---- types ----------------------------------------------------------------------------------- */

typedef enum {
  TY_ERROR, /* an expression that did not check; silences what follows from it */
  TY_VOID,
  TY_INT,
  TY_REAL,
  TY_COMPLEX,
  TY_VECTOR,
  TY_ROW_VECTOR,
  TY_MATRIX,
  TY_COMPLEX_VECTOR,
  TY_COMPLEX_ROW_VECTOR,
  TY_COMPLEX_MATRIX,
  TY_TUPLE,
  TY_FUNCTION,
  TY_STRING, /* only in print, reject and fatal_error */
} TypeKind;

typedef struct Type {
  TypeKind kind;
  int array_dims; /* array[,] T has 2 */
  int nitems;     /* tuple: items; function: arguments */
  const struct Type **items;
  bool *data_only;           /* function: argument k is `data` */
  const struct Type *result; /* function: result */
} Type;

/* ---- expressions ----------------------------------------------------------------------------- */

/* clang-format off */
typedef enum {
  OP_ADD, OP_SUB, OP_MUL, OP_DIV, OP_IDIV /* %/% */, OP_MOD, OP_LDIV /* \ */, OP_POW, OP_ELT_MUL,
  OP_ELT_DIV, OP_ELT_POW,
  OP_OR, OP_AND, OP_EQ, OP_NE, OP_LT, OP_LE, OP_GT, OP_GE,
  OP_NOT, OP_NEG, OP_PLUS, OP_TRANSPOSE,
} Operator;
/* clang-format on */

typedef enum {
  EX_INT,     /* ivalue */
  EX_REAL,    /* rvalue */
  EX_IMAG,    /* rvalue i */
  EX_STRING,  /* name holds the text without quotes */
  EX_VAR,     /* name -> decl */
  EX_UNARY,   /* op args[0]; OP_TRANSPOSE is postfix */
  EX_BINARY,  /* args[0] op args[1] */
  EX_TERNARY, /* args[0] ? args[1] : args[2] */
  EX_CALL,    /* name(args) ; also name(args[0] | args[1..]) with bar set -> call */
  EX_INDEX,   /* args[0][indexes] */
  EX_FIELD,   /* args[0].field, 1-based */
  EX_ARRAY,   /* {args} */
  EX_ROW,     /* [args]: row_vector of reals, or matrix of row vectors */
  EX_TUPLE,   /* (a, b) */
  EX_PAREN,   /* (args[0]): kept for printing */
  EX_TARGET,  /* target() */
} ExprKind;

typedef enum {
  IX_ALL /* : */,
  IX_ONE /* e; an int array means many */,
  IX_FROM /* e: */,
  IX_TO /* :e */,
  IX_RANGE /* a:b */
} IndexKind;

typedef struct Expr Expr;
typedef struct Decl Decl;
typedef struct FunDef FunDef;

typedef struct {
  IndexKind kind;
  Expr *a, *b;
  Loc loc;
} Index;

/* What a call names, set by the checker. */
typedef enum {
  CALL_NONE,
  CALL_USER,
  CALL_FUNCTION,
  CALL_DIST,
  CALL_LAPLACE, /* a function of check_laplace.c */
  CALL_VARIABLE /* a function-typed argument */
} CallKind;

/* Which function of a distribution. The _lupdf forms are the _lpdf ones here: constants are always
 * kept. */
typedef enum { DF_LPDF /* or lpmf */, DF_CDF, DF_LCDF, DF_LCCDF, DF_RNG } DistFun;

struct Expr {
  ExprKind kind;
  Loc loc;
  const Type *type; /* set by the checker */
  bool data_only;   /* set by the checker: no parameter can reach it */
  bool numbers;     /* set by the checker: its arguments are single numbers, int or real */
  bool place;       /* set by the checker: a variable, or x[i, j] with single indexes */
  Operator op;
  int nargs;
  Expr **args;
  int nindexes;
  Index *indexes;
  const char *name;
  long ivalue;
  double rvalue;
  int field;
  bool bar;
  int height;    /* of the tree below: 1 for a leaf; the parser bounds it, so that recursion over a
                    tree is safe */
  Decl *decl;    /* EX_VAR */
  CallKind call; /* EX_CALL */
  FunDef *user;  /* CALL_USER */
  int builtin;   /* CALL_FUNCTION: FunId; CALL_DIST: DistId */
  DistFun distfun; /* CALL_DIST */
};

/* ---- check_laplace.c: Laplace approximations ------------------------------------------------- */

typedef enum { LAPLACE_MARGINAL, LAPLACE_DRAW, LAPLACE_SOLVE } LaplaceWhat;
typedef enum {
  LAPLACE_ANY, /* the user's own likelihood */
  LAPLACE_POISSON_LOG,
  LAPLACE_BERNOULLI_LOGIT,
  LAPLACE_NEG_BINOMIAL_2_LOG
} LaplaceFamily;
typedef struct {
  LaplaceWhat what;
  LaplaceFamily family;
  bool tol; /* options follow */
} LaplaceCall;
bool laplace_named(const char *name, LaplaceCall *out); /* false: it is none of them */
/* The place of the block size among the arguments; covariance, its tuple and options follow. */
int laplace_block(LaplaceFamily f);

/* ---- declarations and statements ------------------------------------------------------------- */

/* clang-format off */
typedef enum {
  BLOCK_FUNCTIONS, BLOCK_DATA, BLOCK_TRANSFORMED_DATA, BLOCK_PARAMETERS,
  BLOCK_TRANSFORMED_PARAMETERS, BLOCK_MODEL,
  BLOCK_GENERATED, BLOCK_COUNT,
} BlockId;
/* clang-format on */

/* constraints.def */
typedef enum {
  CON_NONE,
#define BRACKET(id, first, second, ints) CON_##id,
#define TYPE_WORD(id, type, least, most, numbers) CON_##id,
#include "stan/constraints.def"
  CON_COUNT
} ConstraintKind;

typedef struct Constraint {
  ConstraintKind kind;
  Expr *args[2]; /* in brackets, in the order of the row: lower, upper; NULL where absent */
} Constraint;

struct Decl {
  const char *name;
  Loc loc;
  const Type *type;
  int nsizes; /* array sizes first, then those of the vector or matrix; -1 dims of arguments have
                 none */
  Expr **sizes;
  Constraint con;
  int nitems; /* tuple types: one Decl an item (name NULL), carrying its sizes and constraint */
  Decl **items;
  Expr *init;     /* = expr, or NULL */
  BlockId block;  /* the block whose top level or body declares it */
  bool is_top;    /* at the top level of its block: an output / input variable */
  bool is_loop;   /* a for loop's variable */
  bool is_arg;    /* a function's argument */
  bool arg_data;  /* `data` argument */
  bool data_only; /* no parameter can reach it (data, transformed data, int loop variables over
                     data, `data` arguments) */
  int slot;       /* number of the variable in its frame: program-wide for blocks, per function for
                     function bodies */
};

/* clang-format off */
typedef enum {
  ST_BLOCK, ST_DECL, ST_ASSIGN, ST_TARGET, ST_JACOBIAN, ST_TILDE, ST_IF, ST_FOR, ST_FOREACH,
  ST_WHILE, ST_BREAK, ST_CONTINUE,
  ST_RETURN, ST_CALL, ST_PRINT, ST_REJECT, ST_FATAL, ST_SKIP, ST_PROFILE,
} StmtKind;
/* clang-format on */

typedef struct Stmt Stmt;
struct Stmt {
  StmtKind kind;
  Loc loc;
  int nbody;
  Stmt **body;  /* BLOCK, PROFILE: statements; IF: then, else (else may be NULL); FOR, FOREACH,
                   WHILE: one */
  Decl **decls; /* DECL: one or more; FOR, FOREACH: the loop variable */
  int ndecls;
  Expr *lhs;   /* ASSIGN: an lvalue (VAR, INDEX, FIELD, or TUPLE of them); TILDE: the outcome */
  Operator op; /* ASSIGN with has_op: += and the like */
  bool has_op;
  Expr *e; /* ASSIGN: right-hand side; TARGET, JACOBIAN, RETURN (may be NULL), CALL; IF, WHILE:
              condition; FOREACH: container */
  Expr *from, *to;  /* FOR */
  const char *name; /* TILDE: distribution name without suffix; PROFILE: its name */
  CallKind call;    /* TILDE: CALL_DIST, CALL_USER, or CALL_LAPLACE: then e is the call */
  int builtin;      /* TILDE: DistId */
  FunDef *user;     /* TILDE: user's _lpdf / _lpmf */
  int nargs;
  Expr **args;    /* TILDE: parameters; PRINT, REJECT, FATAL: what to print */
  bool truncated; /* TILDE: T[lower, upper] */
  Expr *lower, *upper;
};

struct FunDef {
  const char *name;
  Loc loc;
  const Type *type; /* TY_FUNCTION */
  Decl **args;
  int nargs;
  Stmt *body; /* NULL: only declared */
  int nslots; /* frame size */
};

typedef struct Signatures Signatures;

typedef struct Program {
  const Source *source;
  FunDef **functions; /* in order */
  int nfunctions;
  Stmt *blocks[BLOCK_COUNT]; /* ST_BLOCK each, or NULL where absent; BLOCK_FUNCTIONS unused */
  int nslots;                /* variables of all blocks together */
  bool broken;               /* has syntax errors: stan_check leaves it alone */
  bool undefined;            /* StanOptions */
  const Signatures *sigs;    /* of the builtins that it calls; set by the checker */
} Program;

/* ---- the builtin tables ---------------------------------------------------------------------- */

/* functions.def: FUN(id, "signatures", code). dists.def: DIST(id, "signature", flags, support,
 * code). See the head of each. */
typedef enum {
#define FUN(id, signatures, code) FUN_##id,
#include "stan/functions.def"
#undef FUN
  FUN_COUNT
} FunId;

typedef enum {
#define DIST(id, signature, flags, support, code) DIST_##id,
#include "stan/dists.def"
#undef DIST
  DIST_COUNT
} DistId;

enum DistFlag {
  PDF = 1,
  PMF = 2,
  CDF = 4,
  LCDF = 8,
  LCCDF = 16,
  CDFS = CDF | LCDF | LCCDF,
  RNG = 32
};

extern const char *const stan_fun_names[FUN_COUNT];
extern const char *const stan_dist_names[DIST_COUNT];
unsigned stan_dist_flags(DistId d);
/* Are all its arguments numbers, or as many as there are outcomes? */
bool stan_dist_is_elementwise(DistId d);
const char *stan_constraint_name(ConstraintKind k); /* "bounds", "simplex"; "" of CON_NONE */

/* ---- sizes of arguments (sizes.c) ------------------------------------------------------------ */

/* An argument of a builtin as the evaluator has it. */
typedef struct {
  TypeKind kind;
  int array_dims, ndims;
  const int32_t *dims;
  const double *value; /* of an int that is known; else NULL */
} SizedArg;

enum { MOST_SIZED = 16 }; /* arguments behind these have no sizes that a row states */

/* NULL where the sizes of the arguments fit the row, else what is wrong with them, for a message.
 * Rows that the program does not call fit. */
const char *stan_function_sizes(const Program *p, FunId f, const SizedArg *args, int n, Arena *a);
const char *stan_dist_sizes(const Program *p, DistId d, DistFun fun, const SizedArg *args, int n,
                            Arena *a);

/* ---- verbs ----------------------------------------------------------------------------------- */

/* How a program is read. #include looks in the directory of the including file first, then in
 * these; what it names with a slash in front is looked for in these first. */
typedef struct {
  const char *const *include_dirs;
  int ninclude_dirs;
  bool old_syntax; /* real x[N] is array[N] real x, real[] an argument's array[] real */
  bool undefined;  /* functions may be declared without a body; such a program cannot be run */
} StanOptions;

/* Both report through ctx_error and go on; the caller looks at c->nerrors. Never NULL. */
Program *stan_parse(Ctx *c, const char *path, const StanOptions *o); /* ctx_fail when unreadable */
Program *stan_parse_text(Ctx *c, const char *name, const char *text, size_t n,
                         const StanOptions *o);
void stan_check(Ctx *c, Program *p);
void stan_pedantic(Ctx *c, const Program *p); /* warnings about parameters without a prior */

void stan_print_tokens(Ctx *c, Text *out, const char *name, const char *text, size_t n);
void stan_print_tree(Text *out, const Program *p,
                     bool typed);               /* s-expressions, one statement a line, indented */
void stan_print_type(Text *out, const Type *t); /* array[,] vector */

/* tree.c: the expression without parentheses around it; the variable of which it is a part, or
 * NULL; does it mention the variable; are two of them the same? */
const Expr *stan_inside(const Expr *e);
const Decl *stan_root(const Expr *e);
bool stan_mentions(const Expr *e, const Decl *d);
bool stan_same_expr(const Expr *a, const Expr *b);
/* A variable declared at the top of a block, by name; NULL: there is none. */
const Decl *stan_find_decl(const Program *p, BlockId id, const char *name);
bool stan_has(const Stmt *s, StmtKind kind); /* such a statement, or one with such a one inside */
bool stan_declares(const Stmt *s, const Decl *d); /* it, or a statement inside of it */

/* Is the data variable used for nothing but to the left of ~ or of a density's bar? */
bool stan_is_only_outcome(const Program *p, const Decl *d);

/* May a function of that name do more than return a value: draw, add to the log density? */
bool stan_has_effects(const char *name);
/* Does it stand there anywhere in the model block? */
bool stan_is_outcome(const Program *p, const Decl *d);
/* The statements of the model block whose increments say something of data without a density of
 * data by name; for programs that have none. In a's memory. */
const Stmt *const *stan_possible_observations(Arena *a, const Program *p, int *n);
void stan_print_expr(Text *out, const Expr *e); /* as Stan source, on one line */

/* ---- edits.c: a changed program, all else of its text kept ----------------------------------- */

typedef struct {
  size_t at, length; /* what it takes the place of */
  const char *text;
  size_t number; /* insertions at one place keep their order */
} Edit;

typedef struct {
  Arena *arena;
  const Program *program;
  Edit *items;
  size_t n, cap;
} Edits;

Edits edits_make(Arena *a, const Program *p);
bool edits_offset(const Edits *e, Loc loc, size_t *at); /* false: it is in another file */
/* The first such character outside of comments and strings; the end of the text: there is none. */
size_t edits_find(const Edits *e, size_t from, char what);
void edits_replace(Edits *e, size_t at, size_t length, const char *text);
bool edits_append(Edits *e, BlockId id, const char *statement); /* false: there is no such block */
const char *edits_apply(Edits *e); /* the new text; NULL: two of them overlap */

#endif
