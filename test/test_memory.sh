#!/usr/bin/env bash
# test_memory.sh: memory per row of data, by runs that must succeed with a limit on it. Speaks TAP.
# The limits count every mapped byte, written or not; they lie about a fifth above what is needed.
set -uo pipefail
cd "$(dirname "$0")/.."
PVI=${PVI:-build/pvi}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
rows=100000 program_kb=10000 # the program itself, its libraries and buffers

if ! (ulimit -v $program_kb && "$PVI" --version >/dev/null 2>&1); then
  echo "ok - memory # SKIP a sanitized program maps more than any limit"
  echo "# skipped: memory per row, under sanitizers"
  exit 0
fi

head='data { int N; vector[N] x; vector[N] y; } parameters { real a; real b; real s; } model { a ~ normal(0, 5); b ~ normal(0, 5);'
echo "$head s ~ normal(0, 1); y ~ normal(a + b * x, exp(s)); }" >"$dir/vector.stan"
echo "$head s ~ normal(0, 1); for (n in 1:N) y[n] ~ normal(a + b * x[n], exp(s)); }" >"$dir/loop.stan"
awk -v n=$rows 'BEGIN { print "x,y"; for (k = 0; k < n; k++) { x = k * 0.618 % 4 - 2; printf "%.5f,%.5f\n", x, x + k * 0.414 % 2 } }' \
  >"$dir/data.csv"
column() { tail -n +2 "$dir/data.csv" | cut -d, -f"$1" | paste -sd,; }
echo "{\"N\": $rows, \"x\": [$(column 1)], \"y\": [$(column 2)]}" >"$dir/data.json"

failed=0
# within BYTES-A-ROW WHAT COMMAND...
within() {
  local bytes=$1 what=$2
  shift 2
  (ulimit -v $((program_kb + bytes * rows / 1024)) && "$@" >"$dir/said" 2>&1)
  local status=$?
  if [ $status -eq 0 ] || [ $status -eq 5 ]; then
    echo "ok - $what: $bytes bytes a row"
  else
    echo "not ok - $what: $bytes bytes a row" && failed=1
    sed 's/^/# /' "$dir/said"
  fi
}

within 140 "a table is read, lowered and reduced" "$PVI" check "$dir/vector.stan" "$dir/data.csv"
within 140 "so is JSON" "$PVI" check "$dir/vector.stan" "$dir/data.json"
within 160 "so is a loop" "$PVI" check "$dir/loop.stan" "$dir/data.csv"
within 150 "an objective by draws" "$PVI" bench "$dir/vector.stan" "$dir/data.csv" --draws 8 --threads 1
within 240 "a fit by exact integration" "$PVI" fit "$dir/vector.stan" "$dir/data.csv" --score elbo --iterations 1 --threads 1 \
  --quiet --out "$dir/run"

# 4,000 parameters, scored on 16,384 draws: 524 MB, if all of them were there at once.
echo "data { int N; vector[N] y; } parameters { vector[4000] b; } model { b ~ normal(0, 1); y ~ student_t(4, b[1], 1); }" >"$dir/many.stan"
echo "{\"N\": 20, \"y\": [$(seq -s, 20)]}" >"$dir/many.json"
within 3000 "scores on more draws than are kept" "$PVI" fit "$dir/many.stan" "$dir/many.json" --score elbo --integrate draws \
  --family meanfield --draws 8 --iterations 1 --threads 1 --quiet --out "$dir/draws"
exit $failed
