#!/bin/sh
# bench.sh: what evaluations cost on this machine: vector mathematics against libm, then objectives of the examples.
# Programs of the paper need the shared data folder (../shared, or PVI_SHARED).
set -eu
cd "$(dirname "$0")/.."
pvi=${PVI:-build/pvi}
shared=${PVI_SHARED:-../shared}
"$1"
echo
run() { # name, program, data, options
  name=$1
  shift
  printf '%-10s %-6s ' "$name" "$score"
  "$pvi" bench "$@" --score "$score" | tail -n 1
}
for score in elbo log; do
  run golf examples/golf/logistic.stan examples/golf/golf.csv
  [ -d "$shared/data/posteriordb" ] || { echo "skipped: no $shared/data/posteriordb"; continue; }
  for pair in earnings:earnings kidscore:kidiq nes:nes2000 wells:wells_data radon:radon_all election:election88 glmm:GLMM_data; do
    run "${pair%%:*}" "examples/paper/${pair%%:*}.stan" "$shared/data/posteriordb/${pair##*:}.json" \
      --split "$shared/data/paper/splits/${pair%%:*}.json"
  done
done
