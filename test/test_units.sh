#!/usr/bin/env bash
# test_units.sh: what one observation is: `--unit`. The log density of a unit is the sum over its outcomes, and a fit to units finds how units differ.
set -uo pipefail
cd "$(dirname "$0")/.."
PVI=${PVI:-build/pvi}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
. test/tap.sh

# Groups of five outcomes around their own means, in mixed order: group g has the outcomes of index i with i mod 12 = g.
cat >"$dir/mean.stan" <<'S'
data { int N; vector[N] y; }
parameters { real mu; }
model { y ~ normal(mu, 1); }
S
awk 'BEGIN {
  printf "{\"N\": 60, \"g\": ["; for (i = 0; i < 60; i++) printf "%s%d", i ? "," : "", 10 * ((7 * i) % 12) + 3
  printf "], \"y\": ["; for (i = 0; i < 60; i++) printf "%s%.6f", i ? "," : "", 2 * sin(1 + (7 * i) % 12) + 0.7 * cos(3 * i)
  print "]}"}' >"$dir/groups.json"
echo '[[0.3], [-1]]' >"$dir/points.json"
DATA="$dir/mean.stan $dir/groups.json"

"$PVI" check $DATA >"$dir/said" && grep -q -- "one observation is a row; --unit could make it group:g (12)" "$dir/said"
check $? "check lists what an observation could be, also by a column that the program does not declare" "$(cat "$dir/said")"
"$PVI" check $DATA --json | tr -d ' \n' | grep -q '"unit":"row","units":\[{"name":"row","count":60},{"name":"group:g","count":12}\]'
check $? "check --json lists them too"

pointwise() { "$PVI" density "$@" --at "$dir/points.json" --json | sed 's/.*"pointwise":\[\([^]]*\)\]}\]}.*/\1/' | tr ',' '\n'; } # of the last point
pointwise $DATA >"$dir/rows"
pointwise $DATA --unit group:g >"$dir/units"
awk 'NR == FNR {unit[(7 * (FNR - 1)) % 12] += $1; if (!((7 * (FNR - 1)) % 12 in at)) {at[(7 * (FNR - 1)) % 12] = n; order[n++] = (7 * (FNR - 1)) % 12}; next}
     {d = $1 - unit[order[FNR - 1]]; if (d * d > 1e-20) bad = 1; rows++} END {exit bad || rows != 12}' "$dir/rows" "$dir/units"
check $? "the log density of a unit is the sum over its outcomes, units in the order in which they begin" "$(paste "$dir/rows" "$dir/units" | head -n 5)"

# Without regularizer the best normal q has the mean of the group means, and their variance less that of a mean of five.
"$PVI" fit $DATA --unit group:g --lambda 0 --out "$dir/fit" --quiet
tr -d ' \n' <"$dir/groups.json" | sed 's/.*"y":\[\(.*\)\]}/\1/' | tr ',' '\n' | awk '
  {s[(7 * (NR - 1)) % 12] += $1 / 5} END {for (g in s) m += s[g] / 12; for (g in s) v += (s[g] - m) ^ 2 / 12; printf "%.9f %.9f\n", m, sqrt(v - 0.2)}' >"$dir/want"
tr -d ' \n' <"$dir/fit/q.json" | sed 's/.*"means":\[\([^]]*\)\],"sds":\[\([^]]*\)\].*/\1 \2\n/' >"$dir/got"
paste "$dir/want" "$dir/got" | awk '{exit !(($1 - $3) ^ 2 < 1e-12 && ($2 - $4) ^ 2 < 1e-12)}'
check $? "a fit to groups has the closed form: the variance between groups alone" "$(cat "$dir/want" "$dir/got")"

# Two outcomes in every iteration of a loop
cat >"$dir/loop.stan" <<'S'
data { int N; array[N, 2] real y; }
parameters { real mu; }
model { for (n in 1:N) for (k in 1:2) y[n, k] ~ normal(mu, k); }
S
echo '{"N": 3, "y": [[1, 2], [3, 4], [5, 7]]}' >"$dir/loop.json"
pointwise "$dir/loop.stan" "$dir/loop.json" >"$dir/rows"
pointwise "$dir/loop.stan" "$dir/loop.json" --unit iteration >"$dir/units"
awk 'NR == FNR {u[int((FNR - 1) / 2)] += $1; next} {d = $1 - u[FNR - 1]; if (d * d > 1e-20) bad = 1; n++} END {exit bad || n != 3}' "$dir/rows" "$dir/units"
check $? "an iteration of the outermost loop as one observation" "$(paste "$dir/rows" "$dir/units")"

"$PVI" fit $DATA --unit group:h --quiet 2>"$dir/said"
[ $? -eq 2 ] && grep -q 'unknown value of --unit "group:h"; did you mean "group:g"?' "$dir/said"
check $? "a unit that cannot be is refused with those that can" "$(cat "$dir/said")"

# The test of "varies" simulates single outcomes, whatever the unit is.
"$PVI" diagnose $DATA --unit group:g --simulations 29 >"$dir/said" && grep -q "verdict: mu varies" "$dir/said"
check $? "diagnose by groups tells that their means differ" "$(cat "$dir/said")"
# The standard error of a width is the sandwich: of y ~ normal(mu, 1) the width is sqrt(v - 1), v the variance, whose own error is that of fourth moments.
"$PVI" diagnose $DATA --simulations 0 --json | sed 's/.*"sd":\([^,]*\),"sd_se":\([^,]*\),.*/\1 \2/' >"$dir/got"
tr -d ' \n' <"$dir/groups.json" | sed 's/.*"y":\[\(.*\)\]}/\1/' | tr ',' '\n' | awk '
  {y[NR] = $1; m += $1 / 60} END {for (k in y) {d = y[k] - m; v += d * d / 60; f += d ^ 4 / 60}; printf "%.6f %.6f\n", sqrt(v - 1), sqrt((f - v * v) / 60) / (2 * sqrt(v - 1))}' >"$dir/want"
paste "$dir/want" "$dir/got" | awk '{exit !(($1 / $3 - 1) ^ 2 < 1e-8 && ($2 / $4 - 1) ^ 2 < 1e-5)}'
check $? "the standard error of a width agrees with its closed form" "$(paste "$dir/want" "$dir/got")"
exit $failed
