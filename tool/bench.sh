#!/bin/sh
# bench.sh: what evaluations cost on this machine: vector mathematics against libm, the engine against hand-written kernels, how
# cost grows, reading of data files, and a draw's gradient against Stan's (measured elsewhere: stan_speed.md in the shared data folder, ../shared or
# PVI_SHARED). Argument: the folder of the bench programs.
set -eu
cd "$(dirname "$0")/.."
pvi=${PVI:-build/pvi}
shared=${PVI_SHARED:-../shared}
bench=$1
[ -x "$pvi" ] || { echo "bench.sh: no $pvi: make it first, or name it in PVI" >&2; exit 1; }

"$bench/bench_vmath"
echo
"$bench/bench_kernels" examples/paper
echo
"$bench/bench_scaling" examples
echo
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$bench/bench_loading" "$scratch"
echo

echo "one gradient of the log density: Stan's median, and a draw of 128 together (elbo, mean-field, 1 thread)"
speed=$shared/data/stan_speed.md
[ -f "$speed" ] || { echo "skipped: no $speed"; exit 0; }
sed -n '/^## What/q; s/^| \([A-Za-z0-9_]*-[A-Za-z0-9_]*\) |[^|]*|[^|]*| *\([0-9.]*\) |.*/\1 \2/p' "$speed" | while read -r posterior stan; do
  data=$shared/data/posteriordb/${posterior%%-*}.json
  model=test/models/${posterior#*-}.stan
  case $posterior in
  earnings-* | kidiq-* | nes* | radon* | election* | GLMM_data-*) bar=10 ;;
  wells*) bar=4 ;;
  diamonds* | garch* | hmm* | eight*) bar=2 ;;
  *) bar=1 ;;
  esac
  if [ ! -f "$model" ] || [ ! -f "$data" ]; then
    printf '  %-55s skipped: no %s\n' "$posterior" "$([ -f "$model" ] && echo "$data" || echo "$model")"
    continue
  fi
  best=$(for k in 1 2 3; do
    "$pvi" bench "$model" "$data" --score elbo --draws 128 --json | sed -n 's/.*"us_per_draw": *\([0-9.e+-]*\).*/\1/p'
  done | sort -g | head -n 1)
  awk -v name="$posterior" -v stan="$stan" -v us="$best" -v bar="$bar" 'BEGIN {
    r = stan / us
    printf "  %-55s Stan %9.3f us, pvi %9.4f us, ratio %6.2f (bar %d)%s\n", name, stan, us, r, bar, r < bar ? "  MISSED" : "" }'
done
