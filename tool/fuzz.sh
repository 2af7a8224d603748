#!/usr/bin/env bash
# fuzz.sh MUTATOR: programs and data with mistakes in them (test/fuzz_mutate.c) through check, density and fit of PVI, a build with
# sanitizers. Wrong is what ends with a status above 5, with a sanitizer's report, or not at all. FUZZ_RUNS says how many
# (default 300), FUZZ_SEED from which on; the files of a failure are kept in FUZZ_KEEP.
set -uo pipefail
cd "$(dirname "$0")/.."
mutate=${1:?usage: fuzz.sh MUTATOR}
PVI=${PVI:-build-torture/pvi}
runs=${FUZZ_RUNS:-300} seed=${FUZZ_SEED:-1} keep=${FUZZ_KEEP:-${TMPDIR:-/tmp}/pvi-fuzz}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export ASAN_OPTIONS=exitcode=99:allocator_may_return_null=1:max_allocation_size_mb=512:soft_rss_limit_mb=1000 UBSAN_OPTIONS=exitcode=99

# Programs and data: what is mutated.
programs=() data=()
pair() { programs+=("$1") data+=("$2"); }
made() { # NAME TEXT: a data file
  echo "$2" >"$dir/$1"
  echo "$dir/$1"
}
schools=$(made schools.json '{"J": 3, "y": [28, 8, -3], "sigma": [15, 10, 16]}')
garch=$(made garch.json '{"T": 5, "y": [1.2, -0.3, 0.4, 2.1, -1], "sigma1": 0.5}')
hmm=$(made hmm.json '{"N": 5, "K": 2, "y": [1.2, 3.3, 9.4, 10.1, 2.5]}')
lynx=$(made lynx.json '{"N": 3, "ts": [1, 2, 3.5], "y_init": [30, 4], "y": [[47.2, 6.1], [70.2, 9.8], [35, 40]]}')
mix=$(made mix.json '{"N": 4, "y": [1.2, -1.3, 2.4, -2.1]}')
glmm=$(made glmm.json '{"nobs": 3, "nmis": 1, "nyear": 2, "nsite": 2, "obs": [3, 0, 2], "obsyear": [1, 2, 1], "obssite": [1, 1, 2],
  "misyear": [2], "missite": [2]}')
all=$(made all.json '{"N": 4, "K": 3, "x": [[1, 0.5], [0, -1], [2, 1], [1, 1]], "y": [1, 0, 1, 1], "g": [1, 3, 2, 3], "n": [2, 4, 1, 3],
  "w": [0.1, 0.9, 1.5, 2]}')
lib=$(made lib.json '{"N": 3, "K": 2, "x": [1, 2.5, -0.5], "Y": [[1, 0.5], [0, -1], [2, 1]], "k": [1, 3, 2], "S": [[2, 0.5], [0.5, 1]]}')
cat >"$dir/lib.stan" <<'STAN'
functions {
  real part(array[] int at, int from, int to, matrix X, array[] int k, vector b) { return poisson_log_glm_lpmf(k[from:to] | X[from:to], 0.1, b); }
  vector root(vector x, vector t) { return x .* x .* x + x - t; }
  real f(real x, real xc, array[] real t, data array[] real r, data array[] int i) { return exp(-x * x) * t[1] + r[i[1]]; }
}
data {
  int N, K;
  array[N] real x;
  array[N] vector[K] Y;
  array[N] int<lower=0> k;
  cov_matrix[K] S;
}
transformed data {
  matrix[K, K] C = cholesky_decompose(S) * inverse(S) + qr_thin_Q(S);
  matrix[N, 2] X = append_col(to_vector(x), rep_vector(1, N));
  vector[K] w = eigenvalues_sym(S) + singular_values(S);
  real q = quantile(x, 0.5) + rank(x, 2);
}
parameters {
  vector[K] m;
  vector<lower=0>[K] s;
  cholesky_factor_corr[K] L;
  cov_matrix[K] V;
  real<lower=0> r;
}
model {
  matrix[N, N] G = add_diag(gp_matern52_cov(x, r, 1 + r) + gp_periodic_cov(x, r, {r, 1}[2], 2), 0.1);
  append_row(s, r) ~ exponential(1);
  L ~ lkj_corr_cholesky(2);
  V ~ inv_wishart(K + 2, S);
  s ~ multi_normal_cholesky(m, diag_pre_multiply(s + 1, L));
  to_vector(x) ~ multi_normal(rep_vector(m[1], N), G);
  Y ~ multi_student_t(4, m, V);
  target += reduce_sum(part, k, 1, X, k, [r, q / 9]') - square(log_determinant(V)) - dot_self(mdivide_left_tri_low(L, m));
  target += -sum(solve_newton(root, w, s)) - integrate_1d(f, 0, r, {r}, x, k) + gamma_lcdf(r | 2, 1) - matrix_exp(-V)[1, 1];
  k ~ neg_binomial_2(r, 2) T[0, 9];
}
generated quantities {
  vector[K] y = multi_normal_rng(m, V);
  matrix[K, K] R = lkj_corr_rng(K, 2) + wishart_rng(K + 1, V) + C;
}
STAN
cat >"$dir/all.stan" <<'STAN'
functions {
  vector line(matrix x, vector b) { return x * b; }
  real size_lpmf(array[] int n, real l) { return poisson_log_lpmf(n | l); }
}
data {
  int<lower=0> N, K;
  matrix[N, 2] x;
  array[N] int<lower=0, upper=1> y;
  array[N] int<lower=1, upper=K> g;
  array[N] int n;
  vector<lower=0>[N] w;
}
transformed data {
  vector[N] lw = log(w + 1);
  int odd = 0;
  for (i in 1:N) if (n[i] % 2 == 1) odd += 1;
}
parameters {
  vector[2] b;
  ordered[2] c;
  simplex[K] p;
  real<lower=0> s;
  array[2] real<lower=-1, upper=1> r;
  cholesky_factor_corr[2] L;
  vector<offset=1, multiplier=2>[K] a;
}
transformed parameters {
  vector[N] eta = line(x, b) + a[g];
}
model {
  b ~ normal(0, s);
  s ~ exponential(1);
  a ~ student_t(4, 0, 1);
  target += -dot_self(to_vector(L)) + sum(r);
  y ~ bernoulli_logit(eta);
  for (i in 1:N) {
    real mu = b[1] + lw[i];
    if (w[i] > 1) w[i] ~ lognormal(mu, s);
    else w[i] ~ gamma(2, exp(mu)) ;
    g[i] ~ categorical(p);
    target += log_mix(0.3, normal_lpdf(x[i, 1] | r[1], s), normal_lpdf(x[i, 1] | r[2], s));
  }
  n ~ size(c[1]);
}
generated quantities {
  array[N] int z = bernoulli_logit_rng(eta);
  vector[N] log_lik;
  for (i in 1:N) log_lik[i] = bernoulli_logit_lpmf(y[i] | eta[i]);
  matrix[2, 2] R = L * L';
  while (odd > 5) print("odd ", odd);
}
STAN
for p in examples/golf/*.stan; do pair "$p" examples/golf/golf.csv; done
pair test/models/eight_schools_noncentered.stan "$schools"
pair test/models/garch11.stan "$garch"
pair test/models/hmm_example.stan "$hmm"
pair test/models/low_dim_gauss_mix.stan "$mix"
pair test/models/lotka_volterra.stan "$lynx"
pair test/models/GLMM1_model.stan "$glmm"
for k in 1 2 3 4 5 6; do pair "$dir/all.stan" "$all" && pair "$dir/lib.stan" "$lib"; done
texts=(test/stan/*.stan) # for the parser alone
pair "" /dev/null

failures=0
declare -A ends=()
try() { # COMMAND...: one run of pvi
  timeout 20 "$PVI" "$@" >"$dir/out" 2>"$dir/err" </dev/null
  local status=$?
  ends[$status]=$((${ends[$status]:-0} + 1))
  [ $status -le 5 ] && ! grep -q 'runtime error\|Sanitizer' "$dir/err" && return
  failures=$((failures + 1))
  mkdir -p "$keep"
  cp "$dir/case.stan" "$keep/$seed.stan"
  cp "$dir/case.$kind" "$keep/$seed.$kind"
  cp "$dir/err" "$keep/$seed.err"
  echo "not ok - seed $seed: pvi $1: status $status: $(grep -m 1 'runtime error\|SUMMARY\|Assert\|error' "$dir/err" | cut -c 1-200)"
}

for ((last = seed + runs; seed < last; seed++)); do
  k=$((seed % ${#programs[@]})) kind=json
  program=${programs[$k]:-${texts[$((seed / ${#programs[@]} % ${#texts[@]}))]}} with=${data[$k]}
  [[ $with == *.csv ]] && kind=csv
  cat "$program" >"$dir/case.stan"
  cat "$with" >"$dir/case.$kind"
  case $((seed / ${#programs[@]} % 8)) in # programs most of all, since most end at the parser
    0) "$mutate" $seed "$with" >"$dir/case.$kind" ;;
    [1-6]) "$mutate" $seed "$program" >"$dir/case.stan" ;;
    7) "$mutate" $seed "$program" >"$dir/case.stan" && "$mutate" $((seed + 1)) "$with" >"$dir/case.$kind" ;;
  esac
  rm -rf "$dir/run"
  try check "$dir/case.stan"
  try check "$dir/case.stan" "$dir/case.$kind" --dump=tape
  timeout 20 "$PVI" check "$dir/case.stan" "$dir/case.$kind" --json >"$dir/check" 2>/dev/null </dev/null || continue
  dim=$(sed -n 's/^ *"dim": \([0-9]*\).*/\1/p' "$dir/check")
  [ "${dim:-0}" -le 1000 ] || continue
  echo "[[$(seq -s , 1 "${dim:-0}" | sed 's/[0-9]*/0.1/g')]]" >"$dir/points.json"
  [ "${dim:-0}" -eq 0 ] && echo '[]' >"$dir/points.json"
  try density "$dir/case.stan" "$dir/case.$kind" --at "$dir/points.json" --json
  try fit "$dir/case.stan" "$dir/case.$kind" --iterations 2 --draws 8 --save-draws 3 --threads 2 --quiet --force --lambda 0.01 --out "$dir/run"
done
for status in "${!ends[@]}"; do echo "# ${ends[$status]} runs ended with status $status"; done | sort
[ $failures -eq 0 ] && echo "ok - $runs mutated programs and data" || echo "$failures failures; their files are in $keep"
[ $failures -eq 0 ]
