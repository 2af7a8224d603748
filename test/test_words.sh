#!/usr/bin/env bash
# test_words.sh: the words of `pvi fit` and `pvi diagnose` by default, on programs of which it is known what is wrong with them: two of golf putts, four of a
# survey that was simulated, and eight schools.
set -uo pipefail
cd "$(dirname "$0")/.."
PVI=${PVI:-build/pvi}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
. test/tap.sh

# says WHAT WORDS COMMAND ...: among what the command prints, however its lines are broken
says() {
  "$PVI" "${@:3}" 2>/dev/null | tr -s ' \n' ' ' >"$dir/said"
  grep -qE -- "$2" "$dir/said"
  check $? "$1" "$(cat "$dir/said")"
}
fit() { says "fit: $1" "$2" fit "$3" "$4" --out "$dir/run" --force; }
diagnose() { says "diagnose: $1" "$2" diagnose "${@:3}"; }

golf() { # TABLE FILE
  fit "logistic is wrong ($1)" "what varies most: theta1 .*; the program is not right" examples/golf/logistic.stan "$2"
  fit "geometric is nearly right ($1)" "what varies most: log_sigma .*; the program is nearly right: of the [0-9]+ nats" examples/golf/geometric.stan "$2"
  diagnose "logistic is wrong ($1)" "theta1 (varies|vary) in the population .*: the program does not describe" examples/golf/logistic.stan "$2"
  diagnose "geometric is nearly right ($1)" "log_sigma varies in the population beyond what Bayes says, but the program is nearly right" examples/golf/geometric.stan "$2"
}
golf "19 distances" examples/golf/golf.csv
second=${PVI_SHARED:-../shared}/data/paper/golf2.csv
if [ -r "$second" ]; then
  sed '1s/.*/x,n,y/' "$second" >"$dir/golf2.csv"
  golf "31 distances" "$dir/golf2.csv"
else
  echo "ok - the second table of golf # SKIP $second is absent"
fi

survey=examples/election/synthetic.csv
for program in state ethnicity constant; do
  fit "$program is wide" "what varies most: b[13].*; the program is not right" examples/election/$program.stan $survey
done
fit "varying is right" "Bayes is enough here" examples/election/varying.stan $survey
diagnose "state is wide" "b1 varies in the population beyond what Bayes says: the program does not describe" examples/election/state.stan $survey
diagnose "constant is wide" "b1 (varies|and b3 vary) in the population beyond what Bayes says: the program does not describe" examples/election/constant.stan $survey --simulations 39
diagnose "varying is right" "Bayes is enough here" examples/election/varying.stan $survey --simulations 39

cat >"$dir/schools.stan" <<'S'
data { int J; vector[J] y; vector<lower=0>[J] sigma; }
parameters { vector[J] z; real mu; real<lower=0> tau; }
transformed parameters { vector[J] theta = mu + tau * z; }
model { z ~ std_normal(); y ~ normal(theta, sigma); mu ~ normal(0, 5); tau ~ cauchy(0, 5); }
S
sed -e 's/z ~ std_normal()/theta ~ normal(mu, tau)/' -e '/transformed/d' -e 's/vector\[J\] z/vector[J] theta/' "$dir/schools.stan" >"$dir/centred.stan"
echo '{"J": 8, "y": [28, 8, -3, 7, -1, 1, 18, 12], "sigma": [15, 10, 16, 11, 9, 11, 10, 18]}' >"$dir/schools.json"
for program in schools centred; do
  fit "eight schools, $program" "Bayes is enough here" "$dir/$program.stan" "$dir/schools.json"
  diagnose "eight schools, $program" "Bayes is enough here" "$dir/$program.stan" "$dir/schools.json"
done
# Outliers pull at slopes as well: once the noise may vary, no slope seems to. And a slope that varies is not taken for noise.
simulated() { # CASE SEED: a regression of `make calibrate`
  python3 -B - "$1" "$2" "$dir" <<'P'
import json, random, sys
sys.path.insert(0, "tool")
from calibrate import CASES
program, make, _ = CASES[sys.argv[1]]
open(sys.argv[3] + "/case.stan", "w").write(program)
json.dump(make(random.Random(int(sys.argv[2]))), open(sys.argv[3] + "/case.json", "w"))
P
}
for seed in 1000 1001; do
  simulated noise $seed
  diagnose "heavy tails are the noise's alone ($seed)" "verdict: sigma varies in the population" "$dir/case.stan" "$dir/case.json" --simulations 39
  simulated slope $seed
  diagnose "the slope alone varies ($seed)" "verdict: b\[1\] varies in the population" "$dir/case.stan" "$dir/case.json" --simulations 39
done
exit $failed
