/* stan_int.h: what the files of this folder share.
 *
 *   tokens.def        the tokens                 lexer.c       text -> tokens, #include
 *   functions.def     built-in functions         parser.c      program, blocks; recovery
 *   dists.def         distributions              parse_type.c  types and declarations
 *   constraints.def   constraints                parse_stmt.c  statements
 *   operators.def     the operators' types       parse_expr.c  expressions
 *   signatures.c      the little language of the tables; sizes.c: the sizes it states
 *   types.c           equality, promotion        check.c       blocks, scopes, functions
 *   print.c           every stage as text        check_*.c     declarations, statements, ...
 */
#ifndef PVI_STAN_INT_H
#define PVI_STAN_INT_H

#include "stan/stan.h"

/* ---- errors ---------------------------------------------------------------------------------- */

enum { MAX_ERRORS = 50, MAX_INCLUDES = 50 };

/* ctx_error, until there are MAX_ERRORS of them. */
void stan_error(Ctx *c, Loc loc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void stan_verror(Ctx *c, Loc loc, const char *fmt, va_list ap);

/* ---- tokens ---------------------------------------------------------------------------------- */

typedef enum {
#define CLASS(id, what) TOK_##id,
#define KEYWORD(id, word) TOK_##id,
#define PUNCT(id, spelling) TOK_##id,
#include "stan/tokens.def"
  TOK_COUNT
} TokenKind;

typedef struct {
  TokenKind kind;
  Loc loc;
  const char *text; /* IDENT, WORD: the word; STRING: what is between the quotes */
  long ivalue;      /* INT, DOTNUM (the digits after the dot) */
  double rvalue;    /* INT, REAL, IMAG, DOTNUM */
} Token;

typedef struct {
  Token *at; /* the last one is TOK_END */
  size_t count, cap;
} Tokens;

Tokens lex_all(Ctx *c, const Source *s, const StanOptions *o);
const char *token_name(TokenKind k); /* for messages: `+=`, "a name" */

/* ---- constraints (types.c) ------------------------------------------------------------------- */

/* The names that may stand in brackets, or NULL; may they behind int? */
const char *con_argument(ConstraintKind k, int argument);
bool con_allows_int(ConstraintKind k);

/* ---- the parser ------------------------------------------------------------------------------ */

enum {
  MAX_NESTING = 500, /* of brackets and statements: the parser's own recursion */
  MAX_HEIGHT = 2000, /* of an expression tree: the recursion of everybody after the parser, */
  LEVEL_BYTES = 512, /* who needs less than this of the stack per level */
};

typedef struct {
  Ctx *c;
  const Token *first;
  const Token *at; /* the token to be read next */
  bool panic;      /* after a syntax error: every production sees the end until parse_recover */
  bool old_syntax; /* StanOptions */
  bool lost;       /* recovery ran out of the block: braces may not match from here on */
  int nesting;
  int most_height; /* of an expression: MAX_HEIGHT, or what the stack allows */
} Parser;

TokenKind tok_peek(const Parser *p);  /* the next token's kind; the end while panicking */
TokenKind tok_peek2(const Parser *p); /* the one behind it */
bool tok_at_word(const Parser *p, const char *word); /* is it this identifier? */
bool tok_accept(Parser *p, TokenKind k);             /* take it if it is a k */
Loc tok_expect(Parser *p, TokenKind k, const char *where);
const char *tok_expect_name(Parser *p, Loc *loc, const char *what);
void parse_error(Parser *p, Loc loc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void syntax_error(
    Parser *p,
    const char *expected);   /* "expected ... but found ..." at the next token; starts the panic */
bool parse_enter(Parser *p); /* one level deeper, or an error; pair with parse_leave */
void parse_leave(Parser *p);
Loc loc_join(Loc from, Loc to);  /* from the first to the end of the second, when on one line */
Loc loc_before(const Parser *p); /* the token just read */

Expr *parse_expr(Parser *p);
Expr *parse_bound(Parser *p); /* an expression without comparisons, as in <lower=...> */
Expr *parse_printable(Parser *p);
void parse_args(Parser *p, TokenKind close, Expr *owner); /* up to, not including, close */

bool parse_at_type(const Parser *p);
Decl *parse_type(Parser *p, bool sized); /* a Decl without a name: type, sizes, constraint, items */
Stmt *parse_decl(Parser *p);
Decl *parse_arg(Parser *p);
Stmt *parse_stmt(Parser *p); /* or a declaration */
Stmt *parse_braces(Parser *p, const char *what);
Stmt *parse_new_stmt(Parser *p, StmtKind kind, Loc loc);
void parse_recover(Parser *p);

/* ---- types ----------------------------------------------------------------------------------- */

const Type *type_basic(TypeKind k); /* a shared constant without array dimensions */
const Type *type_array(Arena *a, const Type *of, int dims);
const Type *type_element(Arena *a, const Type *t); /* what one single index leaves of an array */
const Type *type_tuple(Arena *a, const Type **items, int n);
bool type_equal(const Type *a, const Type *b);
int type_promotions(const Type *from, const Type *to); /* 0 equal, 1 promoted, -1 cannot be */
const Type *type_common(Arena *a, const Type *x, const Type *y); /* both promote to it, or NULL */
bool type_is(const Type *t, TypeKind k);                         /* this kind and no array */
bool type_is_int(const Type *t);    /* int, and arrays and tuples of nothing else */
bool type_is_scalar(const Type *t); /* int or real */
bool type_is_error(const Type *t);
bool type_has_int(const Type *t);                     /* int anywhere in it */
int type_own_dims(TypeKind k);                        /* vector 1, matrix 2 */
TypeKind type_row_kind(TypeKind matrix, bool column); /* of a (complex) matrix: its row or column */
TypeKind type_scalar_kind(TypeKind k);                /* real, complex, int */
TypeKind type_real_kind(TypeKind k);                  /* of a complex kind: its real one */
const char *type_text(Arena *a, const Type *t);

/* ---- names for messages ---------------------------------------------------------------------- */

const char *stan_op_name(Operator op);
const char *stan_block_name(BlockId b);

/* ---- signatures: the little language of functions.def ---------------------------------------- */

typedef struct Sig Sig; /* one signature; the alternatives of a row hang on `next` */

typedef enum { PAT_TYPE, PAT_VARIABLE, PAT_TUPLE /* results only */, PAT_FUNCTION } PatternKind;

/* The words that stand for one type throughout a signature. */
typedef enum {
  VAR_MAP,
  VAR_IMAP,
  VAR_CMAP,
  VAR_BOX,
  VAR_CBOX,
  VAR_VEC,
  VAR_CVEC,
  VAR_T,
  VAR_COUNT
} Variable;

enum { ANY_DIMS = -1 };

/* One size between brackets: a letter; two of them, or a letter and a digit, with a sign between
 * them; or nothing. */
typedef struct {
  char a, b;     /* a == 0: any size */
  char sign;     /* '+', 'm' (the smaller one), or 0: a alone */
  bool positive; /* ... > 0 */
} Size;

typedef struct Pattern {
  PatternKind kind;
  bool data;
  int dims;       /* array dimensions before the word, or ANY_DIMS */
  TypeKind type;  /* PAT_TYPE */
  Variable var;   /* PAT_VARIABLE */
  const Sig *fun; /* PAT_FUNCTION; PAT_TUPLE: its items are the arguments */
  Size *sizes;    /* of the dimensions, those of the array first; NULL: none is named */
  int nsizes;
  Size value;            /* of an int: its name, where other sizes depend on it */
  struct Pattern *other; /* behind a "/" */
} Pattern;

struct Sig {
  Pattern *result;
  Pattern **args;
  int nargs, cap;
  bool rest; /* ends in "..." */
  Sig *next;
};

/* The rows that a program names, as they were first asked for. */
struct Signatures {
  const Sig *functions[FUN_COUNT], *densities[DIST_COUNT], *operators[OP_TRANSPOSE + 1];
  const Sig *rngs[DIST_COUNT]; /* NULL: the parameters of the density */
};

/* What a function is called with. */
typedef struct {
  int n;
  const Type **types;
  const bool *data; /* NULL: all are */
  Expr **exprs;     /* where the checker finds the names of functions; NULL: none */
} Args;

typedef struct Checker Checker;

/* The best alternative for these arguments: its result type, or NULL. *cost: the number of
 * promotions. */
const Type *sig_match(Checker *k, const Sig *sigs, const Args *args, int *cost);
const Sig *sig_function(Checker *k, FunId f);
const Sig *sig_operator(Checker *k, Operator op);
const Sig *sig_density(Checker *k, DistId d);
const Type *sig_match_rng(Checker *k, DistId d, const Args *args, int *cost);
void sig_describe(Text *out, const char *name, const char *signatures,
                  bool dist); /* at most a few, for messages */
void sig_describe_dist(Text *out, const char *name, DistId d, DistFun fun);
const char *sig_text(FunId f);

/* ---- the checker ----------------------------------------------------------------------------- */

typedef struct {
  FunDef **defs;
  int n, cap;
} Overloads;

struct Checker {
  Ctx *c;
  Program *p;
  Map names; /* name -> Decl in scope, or NULL; there is no shadowing, so a name has one at most */
  Map functions; /* name -> Overloads of the user's functions so far */
  Map builtins;  /* name -> FunId + 1 */
  Map dists;     /* name -> DistId + 1 */
  Decl **scope;  /* what is in `names`, in order of declaration */
  int nscope, cap_scope;
  BlockId block;
  const FunDef *fun; /* the function whose body this is, or NULL */
  int loops;         /* how many loops around */
  int nslots;
  Signatures sigs;
};

/* What a function's name promises by its ending. */
typedef enum {
  SUFFIX_NONE,
  SUFFIX_LPDF,
  SUFFIX_LPMF,
  SUFFIX_LUPDF,
  SUFFIX_LUPMF,
  SUFFIX_CDF,
  SUFFIX_LCDF,
  SUFFIX_LCCDF,
  SUFFIX_RNG,
  SUFFIX_LP,
  SUFFIX_JACOBIAN,
} Suffix;

Suffix suffix_of(const char *name, size_t *stem); /* *stem: the length before it */

void check_error(Checker *k, Loc loc, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
const char *type_show(Checker *k, const Type *t);    /* `type` for messages */
bool check_is_data(const Checker *k, const Expr *e); /* may stand where data is asked for */

int scope_enter(const Checker *k);
void scope_leave(Checker *k, int mark);
void scope_declare(Checker *k, Decl *d);
Decl *scope_variable(const Checker *k, const char *name);
Overloads *scope_functions(const Checker *k, const char *name);
const char *scope_nearest_variable(Checker *k, const char *name);
const char *scope_nearest_function(Checker *k, const char *name);

/* A call whose arguments were checked (check_laplace.c). */
void check_laplace(Checker *k, Expr *e, const LaplaceCall *c);
void check_decls(Checker *k, Stmt *s, bool top);
void check_stmt(Checker *k, Stmt *s);
void check_expr(Checker *k, Expr *e);
void check_int(Checker *k, Expr *e, const char *what); /* checks e, and that it is an int */
void check_call(Checker *k, Expr *e, bool as_statement);
void check_where(Checker *k, const char *name,
                 Loc loc); /* may a function with that ending be called here? */
void check_tilde(Checker *k, Stmt *s);
bool check_operands(Checker *k, Operator op, const Type **types, int n, Loc loc,
                    const Type **result);
const char *suffix_defined_name(Checker *k, const char *name); /* foo_lpdf for foo_lupdf */
bool check_may_change_target(const Checker *k);
bool check_may_change_jacobian(const Checker *k);
bool check_may_overload(Checker *k, const FunDef *f); /* no built-in function has these arguments */

#endif
