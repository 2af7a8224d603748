#!/usr/bin/env bash
# torture.sh: lets every allocation fail in turn, and fits with odd numbers of threads. PVI names a torture build.
#
# When an allocation fails, a command ends with status 1 and a message, leaves no file half written, and never crashes; when the
# allocation that was to fail is never reached, it does its work. A fit has the same bytes for any number of threads.
set -uo pipefail
cd "$(dirname "$0")/.."
PVI=${PVI:-build-torture/pvi}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export ASAN_OPTIONS=exitcode=99 UBSAN_OPTIONS=exitcode=99 # no status of pvi
cat >"$dir/small.stan" <<'STAN'
functions {
  real line(real a, real b, real x) { return a + b * x; }
}
data {
  int<lower=0> N;
  vector[N] x;
  vector[N] y;
}
parameters {
  vector[2] b;
  real<lower=0> sigma;
}
model {
  b ~ normal(0, 1);
  for (n in 1:N) y[n] ~ normal(line(b[1], b[2], x[n]), sigma);
}
generated quantities {
  real z = normal_rng(b[1], sigma);
}
STAN
echo '{"N": 3, "x": [1, 2, 3], "y": [1.5, 2.5, 2]}' >"$dir/small.json"
echo '[[0.5, -0.2, 0.1]]' >"$dir/points.json"

# attempts STEP COMMAND...: allocation 0 fails, then number STEP, 2 STEP, ...
attempts() {
  local step=$1 k=0 status said
  shift
  while :; do
    said=$(PVI_FAIL_ALLOC=$k timeout 60 "$PVI" "$@" 2>&1 >/dev/null)
    status=$?
    if [ $status -eq 0 ] || [ $status -eq 5 ]; then
      [ $k -gt 10 ] || { echo "not ok - $1: no allocation failed"; return 1; }
      echo "ok - $1 survives failing allocations (up to number $k)"
      return 0
    fi
    if [ $status -ne 1 ] || [[ $said != *"out of memory"* ]]; then
      echo "not ok - $1: allocation $k: status $status: $said"
      return 1
    fi
    if ls -A "$dir/run" 2>/dev/null | grep -q tmp; then
      echo "not ok - $1: allocation $k: a file half written is left behind"
      return 1
    fi
    k=$((k + step))
  done
}

# same_bytes OPTIONS...: one fit with 1, 2, 3 and 7 threads; only times may differ
same_bytes() {
  local threads status file
  for threads in 1 2 3 7; do
    timeout 120 "$PVI" fit examples/golf/logistic.stan examples/golf/golf.csv "$@" --iterations 5 --save-draws 20 --holdout 0.3 --quiet \
      --threads $threads --force --out "$dir/$threads" >"$dir/said" 2>&1
    status=$?
    if [ $status -ne 0 ] && [ $status -ne 5 ]; then
      echo "not ok - fit $*: $threads threads: status $status: $(cat "$dir/said")"
      return 1
    fi
    grep -v '"seconds"' "$dir/$threads/summary.json" >"$dir/$threads/summary"
    cut -d , -f 1,3- "$dir/$threads/trace.csv" >"$dir/$threads/trace"
    for file in draws.csv q.json scores.csv summary trace; do
      cmp "$dir/1/$file" "$dir/$threads/$file" && continue
      echo "not ok - fit $*: $file differs with $threads threads"
      return 1
    done
  done
  echo "ok - fit $* has the same bytes with 1, 2, 3 and 7 threads"
}

failed=0
attempts 1 check "$dir/small.stan" "$dir/small.json" || failed=1
attempts 3 density "$dir/small.stan" "$dir/small.json" --at "$dir/points.json" || failed=1
attempts 7 fit "$dir/small.stan" "$dir/small.json" --iterations 2 --draws 8 --save-draws 3 --quiet --threads 3 --force --lambda 0.01 --out "$dir/run" || failed=1
attempts 31 fit "$dir/small.stan" "$dir/small.json" --iterations 2 --save-draws 3 --quiet --threads 3 --force --lambda 0.01 --out "$dir/run" || failed=1
same_bytes --family meanfield --draws 64 || failed=1
same_bytes --family mixture --integrate exact || failed=1
same_bytes --score quadratic --family fullrank || failed=1
same_bytes --score elbo --family fullrank --draws 64 || failed=1
same_bytes --score crps --family mixture --draws 64 || failed=1
same_bytes --optimizer rmsprop --minibatch 7 --draws 10 || failed=1
exit $failed
