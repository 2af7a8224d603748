#!/usr/bin/env bash
# test_width.sh: what every command prints for people fits terminals of 50 and 60 columns: no line is longer, counted in characters.
# CSV, JSON, completions and manual pages are for machines, and are not asked. Speaks TAP.
set -uo pipefail
cd "$(dirname "$0")/.."
PVI=$(realpath "${PVI:-build/pvi}")
GOLF=$(realpath examples/golf)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
. test/tap.sh
cp "$GOLF"/logistic.stan "$GOLF"/geometric.stan "$GOLF"/golf.csv "$dir"
cd "$dir"
printf '[[-0.2, 2], [0, 1]]' >points.json
cat >wide.stan <<'S'
data { int N; vector[N] x; vector[N] y; array[N] int group_of_the_observation; }
parameters { real intercept_of_the_line; real<lower=0> standard_deviation; vector[4] effect_of_the_group; real slope; }
model {
  intercept_of_the_line ~ normal(0, 10);
  effect_of_the_group ~ normal(0, 1);
  slope ~ normal(0, 1);
  standard_deviation ~ normal(0, 10);
  for (n in 1:N)
    y[n] ~ normal(intercept_of_the_line + slope * x[n] + effect_of_the_group[group_of_the_observation[n]], standard_deviation);
}
S
awk 'BEGIN { srand(3); print "x,y,group_of_the_observation"; for (k = 0; k < 60; k++) { x = rand(); printf "%.4f,%.4f,%d\n", x, 1e4 * x + 300 * rand() + (k % 5 ? 0 : 4e3 * x), 1 + k % 4 } }' >wide.csv

# narrow NAME ARGUMENTS...: at both widths; what is said on stderr has places and carets, and is not asked
narrow() {
  local name=$1 columns
  shift
  for columns in 50 60; do
    COLUMNS=$columns "$PVI" "$@" >said 2>errors </dev/null
    [[ $? == [05] ]] && [ -s said ] && ! LC_ALL=C.UTF-8 grep -nE "^.{$((columns + 1)),}" said >long
    check $? "$name in $columns columns" "$(cat long errors)"
  done
}

fast="--lambda 0.1 --force"
COLUMNS=100 "$PVI" fit logistic.stan golf.csv --score elbo --folds 5 --out vi --quiet
narrow "the list of commands" --help
for command in $("$PVI" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p' | grep -v '^pvi$'); do
  narrow "$command --help" $command --help
done
[ "$(COLUMNS=50 "$PVI" compare --help | sed -n '/^examples:/,$p' | sed '1d' | sed -e ':a' -e '/\\$/N; s/ \\\n */ /; ta')" = "$(COLUMNS=200 "$PVI" compare --help | sed -n '/^examples:/,$p' | sed '1d')" ]
check $? "examples that go on behind a backslash are the same commands"
narrow "check" check logistic.stan golf.csv
narrow "check of a program with long names" check wide.stan wide.csv
narrow "density" density logistic.stan golf.csv --at points.json
narrow "fit" fit logistic.stan golf.csv --folds 5 $fast --out run
narrow "fit of a program with long names" fit wide.stan wide.csv $fast --out wide
narrow "sample" sample logistic.stan golf.csv --chains 4 --draws 100 --warmup 100 --force --out chains
narrow "sample of a program with long names" sample wide.stan wide.csv --chains 4 --draws 100 --warmup 100 --force --out widechains
narrow "summary" summary run
narrow "summary of long names" summary wide
"$PVI" fit logistic.stan golf.csv --score crps --out crps --quiet
narrow "summary of a fit for the CRPS, lambda chosen" summary crps
narrow "predict" predict run
narrow "diagnose" diagnose logistic.stan golf.csv --simulations 9
narrow "bag" bag wide.stan wide.csv --bags 3
narrow "compare of runs" compare run vi --stack
narrow "compare of programs" compare logistic.stan geometric.stan golf.csv --methods vi,pvi --lambda 0.1
narrow "report" report run
narrow "export" export run
narrow "bench" bench logistic.stan golf.csv
exit $failed
