#!/usr/bin/env bash
# torture.sh: lets every allocation fail in turn. A command must then end with status 1 and a message, or do its work when the
# allocation that was to fail is never reached; it must never crash. PVI names a torture build.
set -uo pipefail
cd "$(dirname "$0")/.."
PVI=${PVI:-build-torture/pvi}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
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
STAN
echo '{"N": 3, "x": [1, 2, 3], "y": [1.5, 2.5, 2]}' >"$dir/small.json"
echo '[[0.5, -0.2, 0.1]]' >"$dir/points.json"

# The k that are tried: each at first, then every 17th.
attempts() { # COMMAND...
  local k=0 status said
  while :; do
    said=$(PVI_FAIL_ALLOC=$k "$PVI" "$@" 2>&1 >/dev/null)
    status=$?
    if [ $status -eq 0 ]; then
      [ $k -gt 10 ] || { echo "not ok - $1: no allocation failed"; return 1; }
      echo "ok - $1 survives failing allocations (up to number $k)"
      return 0
    fi
    if [ $status -ne 1 ] || [[ $said != *"out of memory"* ]]; then
      echo "not ok - $1: allocation $k: status $status: $said"
      return 1
    fi
    k=$((k < 300 ? k + 1 : k + 17))
  done
}

failed=0
attempts check "$dir/small.stan" "$dir/small.json" || failed=1
attempts density "$dir/small.stan" "$dir/small.json" --at "$dir/points.json" || failed=1
exit $failed
