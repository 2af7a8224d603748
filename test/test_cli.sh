#!/usr/bin/env bash
# test_cli.sh: the program as its user meets it: what it answers to wrong input, its help, its dumps. PVI names the program.
# Every check is a line of TAP: "ok - ..." or "not ok - ...".
set -uo pipefail
cd "$(dirname "$0")/.."
PVI=${PVI:-build/pvi}
shared=${PVI_SHARED:-../shared}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
. test/tap.sh

# expect STATUS FRAGMENT NAME ARGUMENTS...: the status, and the fragment somewhere in what is said; a crash is never right
expect() {
  local status=$1 fragment=$2 name=$3 said got
  shift 3
  said=$("$PVI" "$@" 2>&1 </dev/null)
  got=$?
  if [ $got -eq "$status" ] && [[ $said == *"$fragment"* ]]; then
    check 0 "$name"
  else
    check 1 "$name" "status $got, not $status, or no \"$fragment\" in: $said"
  fi
}

file() { printf '%s' "$2" >"$dir/$1"; }

# ---- a right program and right data --------------------------------------------------------------------------------------

file good.stan 'data { int<lower=0> N; vector[N] x; array[N] int<lower=0, upper=1> y; }
parameters { vector[2] b; }
model {
  b ~ normal(0, 1);
  y ~ bernoulli_logit(b[1] + b[2] * x);
}
'
file good.json '{"N": 3, "x": [1, 2.5, -1], "y": [0, 1, 1]}'
file prior.stan 'parameters { real a; } model { a ~ normal(0, 1); }
'
file good.csv 'x,y
1,0
2.5,1
-1,1
'
file points.json '[[0, 0], [0.5, -0.5]]'

expect 0 "no errors" "a right program" check "$dir/good.stan"
expect 0 "3 observations" "with data" check "$dir/good.stan" "$dir/good.json"
expect 0 "3 observations" "with a table" check "$dir/good.stan" "$dir/good.csv"
expect 0 "quadrature over one affine function" "how it integrates" check "$dir/good.stan" "$dir/good.json"
expect 0 '"exact_integration"' "how it integrates, as JSON" check "$dir/good.stan" "$dir/good.json" --json
file product.stan 'data { int<lower=0> N; vector[N] x; array[N] int<lower=0, upper=1> y; }
parameters { real a; real<lower=0> b; real c; vector<lower=0>[3] d; }
model { a ~ normal(0, 1); b ~ normal(0, 1); c ~ normal(0, 1); d ~ normal(0, 1); y ~ bernoulli_logit(a * d[1] + b * c * d[2] * x + d[3]); }
'
expect 0 "exact integration: not available, because the observations of line 3" "why it does not" check "$dir/product.stan" "$dir/good.json"
expect 2 "more than two affine functions" "exact integration that cannot be" fit "$dir/product.stan" "$dir/good.json" --integrate exact --lambda 0.01 --out "$dir/none"
expect 2 "not normal" "exact integration of a flow" fit "$dir/good.stan" "$dir/good.json" --family spline --integrate exact --lambda 0.01 --out "$dir/none"
expect 2 "lbfgs" "exact integration of a stochastic optimizer" fit "$dir/good.stan" "$dir/good.json" --optimizer adam --integrate exact --lambda 0.01 --out "$dir/none"
expect 2 "it has no draws" "exact integration with draws" fit "$dir/good.stan" "$dir/good.json" --draws 10 --integrate exact --lambda 0.01 --out "$dir/none"
expect 0 '"integration": "exact"' "exact integration" fit "$dir/good.stan" "$dir/good.json" --json --lambda 0.01 --out "$dir/exact"
expect 0 '"integration": "draws"' "by draws" fit "$dir/good.stan" "$dir/good.json" --integrate draws --json --lambda 0.01 --out "$dir/draws"
expect 0 '"n_obs": 3' "as JSON" check "$dir/good.stan" "$dir/good.json" --json
expect 0 "3 observations" "data by --set" check "$dir/good.stan" --set N=3 --set 'x=[1,2,3]' --set 'y=[0,1,1]'
expect 2 'unknown data variable in --set "n"; did you mean "N"?' "--set of no variable" check "$dir/good.stan" "$dir/good.json" --set n=3
expect 2 'unknown data variable in --set "M"; the choices are' "one letter is not another" check "$dir/good.stan" "$dir/good.json" --set M=3
printf '{"N": 3,\n"x": [1, 2,\n"NaN"], "y": [0, 1, 1]}' >"$dir/nan.json"
expect 0 'nan.json:3:1: warning: x[3] is NaN' "NaN, with its place" check "$dir/good.stan" "$dir/nan.json"
printf 'x,y\n1,0\nNaN,1\nNaN,1\n' >"$dir/nan.csv"
expect 0 'nan.csv:3:1: warning: x[2] is NaN (as are 1 more)' "NaN in a table" check "$dir/good.stan" "$dir/nan.csv"
printf 'x,y\r1,0\r2,1\r3,1\r' >"$dir/cr.csv"
expect 0 "3 observations" "lines that end with a carriage return" check "$dir/good.stan" "$dir/cr.csv"
printf 'N <- 3\nx <- c(1, 2, 3)\ny <- c(0, 1, 1)\n' >"$dir/dump.data.R"
expect 0 "3 observations" "a dump of R" check "$dir/good.stan" "$dir/dump.data.R"
cp "$dir/dump.data.R" "$dir/dump"
expect 0 "3 observations" "a dump of R by its content" check "$dir/good.stan" "$dir/dump"
printf 'N <- 3L\nx <- c(1, 2 3)\n' >"$dir/wrong.R"
printf '\x1f\x8b\x08\x00data' >"$dir/data.rds"
expect 3 "is a binary file" "data that are no text" check "$dir/good.stan" "$dir/data.rds"
expect 3 "wrong.R:2:13: error: expected \`)\` here" "a dump of R that is wrong, with its place" check "$dir/good.stan" "$dir/wrong.R"
printf '{"N": 3, "y": [0, 1, 1]}' >"$dir/nox.json"
expect 3 "nox.json', which has N, y
" "nothing given is meant by what is missing" check "$dir/good.stan" "$dir/nox.json"
printf 'parameters { real q; } model { target += -q^2; }' >"$dir/empty.stan"
expect 3 "nothing to time" "timing nothing" bench "$dir/empty.stan" --json
printf '{"N": 1, "x": [1], "y": [1]}' >"$dir/one.json"
expect 0 "more parameters (2) than observations" "too flexible" fit "$dir/good.stan" "$dir/one.json" --lambda 1 --out "$dir/flexible" --quiet
expect 0 "point 2: lp" "densities" density "$dir/good.stan" "$dir/good.json" --at "$dir/points.json"
expect 0 '"pointwise"' "densities as JSON" density "$dir/good.stan" "$dir/good.csv" --at "$dir/points.json" --json
expect 0 "point 1: lp" "options in front" density --at "$dir/points.json" "$dir/good.stan" "$dir/good.json"
expect 0 "point 1: lp" "--name=value" density "$dir/good.stan" "$dir/good.json" --at="$dir/points.json"
one=$("$PVI" density "$dir/good.stan" "$dir/good.json" --at "$dir/points.json" --json)
two=$("$PVI" density "$dir/good.stan" "$dir/good.csv" --at "$dir/points.json" --json)
[ "$one" = "$two" ]
check $? "JSON and CSV give the same bytes"

# ---- usage: status 2 -----------------------------------------------------------------------------------------------------

expect 2 "usage: pvi COMMAND" "no command"
expect 2 "unknown command" "unknown command" frobnicate
expect 2 'did you mean "check"?' "nearly a command" chek
expect 2 'unknown option "--frob"' "unknown option" check --frob "$dir/good.stan"
expect 2 'did you mean "--dump"?' "nearly an option" check --dmp=tree "$dir/good.stan"
expect 2 'unknown option "-x"' "unknown short option" check -x "$dir/good.stan"
expect 2 "missing argument" "no program" check
expect 2 "unexpected argument" "too many arguments" check "$dir/good.stan" "$dir/good.json" more
expect 2 "unknown value of --dump" "no such stage" check "$dir/good.stan" --dump=soup
expect 2 "need data" "a stage that needs data" check "$dir/good.stan" --dump=graph
expect 2 "needs a value" "a value is missing" check "$dir/good.stan" --dump
expect 2 "takes no value" "a flag with a value" check "$dir/good.stan" --json=1
expect 2 "--at POINTS.json is missing" "no points" density "$dir/good.stan" "$dir/good.json"
expect 2 "missing argument" "fit without a program" fit
expect 2 "unknown value of --score" "no such score" fit "$dir/good.stan" "$dir/good.json" --score=best

# ---- a stranger's slips: every answer says what to do --------------------------------------------------------------------

file table.stan 'data { int<lower=0> N; int<lower=1> J; array[N] int<lower=1, upper=J> school; vector[N] x; matrix[N, 2] Z; }
parameters { vector[J] a; real<lower=0> s; }
model { x ~ normal(a[school], s); }
'
slip() { # FRAGMENT NAME COLUMNS-OF-THE-TABLE: x and school as given
  printf "$3" >"$dir/slip.csv"
  expect 3 "$1" "$2" check "$dir/table.stan" "$dir/slip.csv" --set J=2 --set 'Z=[[1,2],[1,2]]'
}
slip "leave such rows out, or make the missing values parameters" "NA in a table" 'x,school\n1.5,1\nNA,2\n'
slip "leave such rows out, or make the missing values parameters" "an empty cell" 'x,school\n1.5,1\n,2\n'
slip "as.integer(factor(x))" "a factor as words" 'x,school\n1.5,north\n2.5,south\n'
slip "write decimals with a point" "decimal commas" 'x;school\n1,5;1\n2,5;2\n'
slip "did you mean its 'School'?" "another case of letters" 'x,School\n1.5,1\n2.5,2\n'
slip "has no value in '$dir/slip.csv', which has" "a missing column, with those that are there" 'x,grade\n1.5,1\n2.5,2\n'
printf 'x,school\n1.5,1\n2.5,2\n' >"$dir/slip.csv"
expect 3 "give it with --set J=NUMBER" "a single number and a table" check "$dir/table.stan" "$dir/slip.csv"
printf '{"N": [2], "J": 2, "school": [1, 2], "x": [1, 2], "Z": [[1, 2], [3, 4]]}' >"$dir/slip.json"
expect 3 "auto_unbox = TRUE" "an array of one for a number" check "$dir/table.stan" "$dir/slip.json"
printf '{"N": 3, "J": 2, "school": [1, 2, 1], "x": [1, 2, 3], "Z": [[1, 2, 3], [4, 5, 6]]}' >"$dir/slip.json"
expect 3 "its transpose would fit" "a matrix by its columns" check "$dir/table.stan" "$dir/slip.json"
expect 3 "no data are given" "a program without its data" fit "$dir/good.stan"
expect 2 "the program comes first" "arguments exchanged" fit "$dir/good.json" "$dir/good.stan"
expect 2 "the program comes first" "arguments exchanged, check" check "$dir/good.json" "$dir/good.stan"
expect 2 "programs come first, their data last" "arguments exchanged, compare" compare "$dir/good.json" "$dir/good.stan"
expect 2 "the last file has the data" "programs without data" compare "$dir/good.stan" "$dir/prior.stan"
expect 2 "write pvi check, pvi fit or pvi sample before it" "no command, but a program" "$dir/good.stan" "$dir/good.json"
expect 2 "here it is pvi fit MODEL DATA --score elbo" "a command of CmdStan" variational "$dir/good.stan"
expect 2 "which reports PSIS-LOO" "a command of loo" loo "$dir/good.stan"
expect 2 "here it is --warmup" "an option of CmdStan" sample "$dir/good.stan" "$dir/good.json" --num_warmup=100
expect 2 "written as for CmdStan; here it is pvi sample MODEL DATA" "arguments as for CmdStan" sample "$dir/good.stan" data file=x.json
expect 2 'unknown option "--cores"; here it is --threads' "an option of rstan and brms" sample "$dir/good.stan" "$dir/good.json" --cores 4
expect 2 "of chains --warmup and --draws" "iterations as rstan has them" sample "$dir/good.stan" "$dir/good.json" --iter=2000
# what comes out of a pipe is read once, and cannot be read again
"$PVI" fit "$dir/good.stan" "$dir/good.json" --lambda 1 --out "$dir/filed" --quiet && "$PVI" fit "$dir/good.stan" <(cat "$dir/good.json") --lambda 1 --out "$dir/piped" --quiet &&
  cmp -s <(grep -v '^#' "$dir/filed/draws.csv") <(grep -v '^#' "$dir/piped/draws.csv") && [ "$(grep '"hash"' "$dir/filed/fit.json")" = "$(grep '"hash"' "$dir/piped/fit.json")" ]
check $? "data from a pipe"
expect 3 "came from a pipe or from memory" "data of a pipe, asked for again" predict "$dir/piped"
expect 2 "but of pvi sample" "an option of another command" fit "$dir/good.stan" "$dir/good.json" --chains 4
expect 2 'did you mean "crps"?' "a score in capitals" fit "$dir/good.stan" "$dir/good.json" --score CRPS
"$PVI" fit "$dir/good.stan" "$dir/good.json" --lambda 1 --out "$dir/runs/one" --quiet
expect 3 "there is $dir/runs/one" "a folder of runs where a run is meant" summary "$dir/runs"
expect 3 "there is no run folder $dir/nowhere" "no run" summary "$dir/nowhere"
# rows of hints.def and other_words.def name commands and options that there are
{
  sed -n 's/^HINT("[^"]*", "\(.*\)")$/\1/p' src/cli/hints.def
  grep '^WORD(' src/run/other_words.def | grep -o 'OPTION("[^"]*")' | sed 's/OPTION("\(.*\)")/--\1/'
} | grep -o -- '--[a-z-]*\|pvi [a-z]\+' | sort -u | while read -r word; do
  case $word in
    --version) ;;
    --*) grep -q "\"${word#--}\"" src/run/options.def || echo "$word" ;;
    *) grep -q "^COMMAND(${word#pvi }," src/cli/commands.def || echo "$word" ;;
  esac
done >"$dir/lost"
[ ! -s "$dir/lost" ]
check $? "hints name commands and options that there are" "$(cat "$dir/lost")"

# ---- programs that are wrong: status 4, with place and caret -------------------------------------------------------------

wrong_program() { # FRAGMENT NAME TEXT
  file wrong.stan "$3"
  expect 4 "$1" "$2" check "$dir/wrong.stan"
}
wrong_program "wrong.stan:1:21: error" "a syntax error has its place" 'parameters { real b }
'
wrong_program "^" "and a caret" 'parameters { real b }
'
wrong_program "norml" "an unknown distribution" 'parameters { real b; } model { b ~ norml(0, 1); }'
wrong_program "did you mean" "its nearest name" 'parameters { real b; } model { b ~ norml(0, 1); }'
wrong_program "wrong.stan:1:43: error: \`mu\` is not declared" "an unknown variable" 'parameters { real b; } model { b ~ normal(mu, 1); }'
wrong_program "error" "a type error" 'parameters { real b; } model { vector[2] v = b; }'
wrong_program "error" "an int from a real" 'parameters { real b; } model { int k = b; }'
wrong_program "error" "assigning to data" 'data { int N; } model { N = 3; }'
wrong_program "error" "a parameter in the data block" 'data { vector[b] x; } parameters { real b; }'
wrong_program "error" "declared twice" 'parameters { real b; real b; }'
wrong_program "error" "blocks out of order" 'model { } parameters { real b; }'
wrong_program "error" "an unclosed block" 'parameters { real b;'
wrong_program "error" "an unclosed comment" 'parameters { real b; } /* model { }'
wrong_program "error" "wrong arguments" 'parameters { real b; } model { target += normal_lpdf(b | 0); }'
wrong_program "error" "no such function" 'parameters { real b; } model { target += frobnicate(b); }'
wrong_program "error" "break outside of a loop" 'model { break; }'
file wrong.stan 'parameters { real b; } model { b ~ norml(0, 1); target += c; }'
said=$("$PVI" check "$dir/wrong.stan" 2>&1)
[ "$(grep -c ': error: ' <<<"$said")" -ge 2 ]
check $? "several errors are told at once" "$said"
expect 4 '"ok": false' "errors as JSON" check "$dir/wrong.stan" --json
printf 'parameters { real \x80\xff\x01 b; }' >"$dir/wrong.stan"
expect 4 "error" "bytes that are no text" check "$dir/wrong.stan"
file wrong.stan ''
expect 0 "" "an empty program is one" check "$dir/wrong.stan"
file wrong.stan '#include "absent.stan"
model { }'
expect 4 "absent.stan" "an included file that is not there" check "$dir/wrong.stan"
file part.stan 'real twice(real x) { return 2 * x; }
'
file including.stan 'functions {
#include part.stan
}
parameters { real b; } model { twice(b) ~ normal(0, 1); }'
expect 0 "no errors" "an included file" check "$dir/including.stan"
file wrong.stan 'parameters { vector[2] b; }
model { target += b[3]; }'
file nothing.json '{}'
expect 4 "index 3 is out of range" "an index out of range" check "$dir/wrong.stan" "$dir/nothing.json"

# ---- data that are wrong: status 3 ---------------------------------------------------------------------------------------

wrong_data() { # FRAGMENT NAME TEXT [FILE]
  file "${4:-wrong.json}" "$3"
  expect 3 "$1" "$2" check "$dir/good.stan" "$dir/${4:-wrong.json}"
}
wrong_data "x" "a missing variable" '{"N": 3, "y": [0, 1, 1]}'
wrong_data "good.stan" "its declaration is shown" '{"N": 3, "y": [0, 1, 1]}'
wrong_data "x" "a wrong size" '{"N": 3, "x": [1, 2], "y": [0, 1, 1]}'
wrong_data "y" "a real where an int is declared" '{"N": 3, "x": [1, 2, 3], "y": [0, 1.5, 1]}'
wrong_data "y" "1.0 is no int" '{"N": 3, "x": [1, 2, 3], "y": [0, 1.0, 1]}'
wrong_data "y[2]" "a violated bound" '{"N": 3, "x": [1, 2, 3], "y": [0, 2, 1]}'
wrong_data "N" "a negative size" '{"N": -3, "x": [], "y": []}'
wrong_data "wrong.json:1:26" "a file cut in the middle" '{"N": 3, "x": [1, 2, 3], "'
wrong_data "wrong.json:1:20" "cut in an array" '{"N": 3, "x": [1, 2'
wrong_data "twice" "a name given twice" '{"N": 3, "N": 3, "x": [1, 2, 3], "y": [0, 1, 1]}'
wrong_data "x" "null" '{"N": 3, "x": [1, null, 3], "y": [0, 1, 1]}'
wrong_data "x" "a string" '{"N": 3, "x": [1, "two", 3], "y": [0, 1, 1]}'
wrong_data "rectang" "rows of different lengths" '{"N": 3, "x": [[1, 2], [3]], "y": [0, 1, 1]}'
wrong_data "wrong.json" "an empty file" ''
wrong_data "x" "a cell that is no number" 'x,y
1,0
two,1
' wrong.csv
wrong_data "y" "a column is missing" 'x
1
2
' wrong.csv
wrong_data "3" "a row too short" 'x,y
1,0
2
' wrong.csv
expect 4 "makes no observation" "a program without observations" fit "$dir/prior.stan" --lambda 0.01 --out "$dir/run"

# ---- one joint observation ---------------------------------------------------------------------------------------------------

file process.stan 'data { int N; vector[N] y; }
parameters { real<lower=0> s; }
model { s ~ normal(0, 1); y ~ multi_normal(rep_vector(0, N), add_diag(rep_matrix(0.5, N, N), s)); }
'
file process.json '{"N": 3, "y": [0.3, -1, 2]}'
joint=("$dir/process.stan" "$dir/process.json" --draws 16 --iterations 3)
expect 0 "one joint density of all the data" "check says so" check "$dir/process.stan" "$dir/process.json"
expect 4 "--score elbo" "a predictive fit is refused" fit "${joint[@]}" --out "$dir/joint"
expect 5 "log score" "unless it is forced" fit "${joint[@]}" --out "$dir/joint" --force
expect 5 "Bayes by VI" "VI fits it" fit "${joint[@]}" --score elbo --out "$dir/joint-elbo"

# ---- observations that the user points out -------------------------------------------------------------------------------

file residuals.stan 'data { int N; vector[N] y; }
parameters { real m; real<lower=0> s; }
model {
  vector[N] e = y - m;
  m ~ normal(0, 2);
  s ~ normal(0, 1);
  e ~ normal(0, s);
  for (n in 1:N) target += log_sum_exp(e[n], s);
}
'
file nothing.json '{}'
file residuals.json '{"N": 3, "y": [0.3, -1, 2]}'
file point.json '[0.4, -0.2]'
expect 0 "no density of data stands in the program by name" "residuals are of data" check "$dir/residuals.stan" "$dir/residuals.json"
expect 0 "6 observations" "all that depends on data" check "$dir/residuals.stan" "$dir/residuals.json"
expect 4 "--observe LINE" "check of a program without observations" check "$dir/prior.stan" "$dir/nothing.json"
expect 4 "--observe LINE" "a remedy" fit "$dir/prior.stan" --lambda 0.01 --out "$dir/run"
expect 0 "converged" "VI needs no observations" fit "$dir/prior.stan" --score elbo --out "$dir/vi-alone"
expect 0 "line 7: 3 by normal" "residuals by --observe" check "$dir/residuals.stan" "$dir/residuals.json" --observe 7
expect 0 "6 observations" "a loop by --observe" check "$dir/residuals.stan" "$dir/residuals.json" --observe 7 --observe 8
expect 2 "on that line" "--observe of a line without increments" check "$dir/residuals.stan" "$dir/residuals.json" --observe 4
expect 2 "number of a line" "--observe of no line" check "$dir/residuals.stan" "$dir/residuals.json" --observe e
file words.stan 'data { int V; int N; array[N] int w; array[N] int d; }
parameters { array[2] simplex[2] theta; array[2] simplex[V] phi; }
model {
  for (n in 1:N) {
    vector[2] gamma;
    for (k in 1:2) gamma[k] = log(theta[d[n], k]) + log(phi[k, w[n]]);
    target += log_sum_exp(gamma);
  }
}
'
file words.json '{"V": 3, "N": 5, "w": [1, 2, 3, 1, 2], "d": [1, 1, 1, 2, 2]}'
expect 0 "line 7: 5 by target" "words are observations" check "$dir/words.stan" "$dir/words.json"
log_density() { "$PVI" density "$dir/residuals.stan" "$dir/residuals.json" --at "$dir/point.json" "$@" --json | tr -d ' \n' | sed 's/.*"log_density":\([^,}]*\).*/\1/'; }
one=$(log_density) other=$(log_density --observe 7 --observe 8)
awk -v a="$one" -v b="$other" 'BEGIN { exit !(a != "" && (a - b)^2 < 1e-24 * (1 + a^2)) }'
check $? "the log density stays" "$one and $other"

expect 3 "absent.json" "a data file that is not there" check "$dir/good.stan" "$dir/absent.json"
expect 4 "absent.stan" "a program that is not there" check "$dir/absent.stan"
expect 3 "absent.json" "points that are not there" density "$dir/good.stan" "$dir/good.json" --at "$dir/absent.json"
file wrong.json '[[0, 0, 0]]'
expect 3 "points have 3 numbers; the program has 2" "points of the wrong length" density "$dir/good.stan" "$dir/good.json" --at "$dir/wrong.json"
file wrong.json '[]'
expect 3 "no points" "no points at all" density "$dir/good.stan" "$dir/good.json" --at "$dir/wrong.json"
file wrong.json '{"u": 3}'
expect 3 "array of vectors" "points that are an object" density "$dir/good.stan" "$dir/good.json" --at "$dir/wrong.json"
expect 2 "--set takes name=value" "--set without a value" check "$dir/good.stan" --set N
"$PVI" density "$dir/good.stan" "$dir/good.json" --at "$dir/points.json" >/dev/full 2>"$dir/said"
[ $? -eq 1 ] && grep -q "cannot write" "$dir/said"
check $? "a full disk is an error" "$(cat "$dir/said")"

# Every prefix of the data file ends well or says what is wrong; nothing crashes.
text=$(cat "$dir/good.json")
bad=0
for ((n = 0; n < ${#text}; n += 3)); do
  file wrong.json "${text:0:n}"
  "$PVI" check "$dir/good.stan" "$dir/wrong.json" >/dev/null 2>&1
  [ $? -eq 3 ] || bad=$n
done
check "$bad" "data cut anywhere"
text=$(cat "$dir/good.stan")
bad=0
for ((n = 0; n < ${#text}; n += 3)); do
  file wrong.stan "${text:0:n}"
  "$PVI" check "$dir/wrong.stan" >/dev/null 2>&1
  status=$?
  [ $status -eq 4 ] || [ $status -eq 0 ] || bad=$n
done
check "$bad" "programs cut anywhere"

# ---- the edges: no parameters, no observations, splits and folders that are none ----------------------------------------------

tiny=(--iterations 2 --draws 8 --save-draws 3 --quiet)
file none.stan 'data { int N; vector[N] y; } model { y ~ normal(0, 1); }
'
file mean.stan 'data { int N; vector[N] y; } parameters { real m; } model { m ~ normal(0, 1); y ~ normal(m, 1); }
'
file alone.stan 'parameters { real m; } model { m ~ normal(0, 1); 1.5 ~ normal(m, 1); }
'
file y.json '{"N": 3, "y": [1, 2, 3]}'
file empty.json '{"N": 0, "y": []}'
file nan.json '{"N": 2, "y": [1, "NaN"]}'
file nowhere.json '[[], []]'
file zero.json '[0]'
expect 0 "0 unconstrained parameters; 3 observations" "check without parameters" check "$dir/none.stan" "$dir/y.json"
expect 0 "point 2: lp" "density without parameters" density "$dir/none.stan" "$dir/y.json" --at "$dir/nowhere.json"
expect 0 "" "fit without parameters" fit "$dir/none.stan" "$dir/y.json" "${tiny[@]}" --lambda 0.01 --out "$dir/none"
expect 3 "nothing was observed: y is empty" "check of no data" check "$dir/mean.stan" "$dir/empty.json"
expect 0 "of 0 observations" "density of no data" density "$dir/mean.stan" "$dir/empty.json" --at "$dir/zero.json"
expect 3 "nothing was observed: y is empty" "fit of no data" fit "$dir/mean.stan" "$dir/empty.json" "${tiny[@]}" --lambda 0.01 --out "$dir/none"
expect 3 "the outcome is nan at element 2; it must be a number" "NaN in the data" check "$dir/mean.stan" "$dir/nan.json"
expect 5 "" "fit without data" fit "$dir/alone.stan" "${tiny[@]}" --lambda 0.01 --out "$dir/alone"
expect 1 "cannot make the folder" "a run folder that cannot be" fit "$dir/mean.stan" "$dir/y.json" "${tiny[@]}" --lambda 0.01 --out /dev/null/run
expect 3 "absent.json" "a split that is not there" fit "$dir/mean.stan" "$dir/y.json" "${tiny[@]}" --split "$dir/absent.json"
wrong_split() { # FRAGMENT NAME TEXT
  file split.json "$3"
  expect 3 "$1" "$2" fit "$dir/mean.stan" "$dir/y.json" "${tiny[@]}" --lambda 0.01 --out "$dir/split" --split "$dir/split.json"
}
wrong_split "the row 4" "a row beyond the last" '{"train": [1, 2], "test": [4]}'
wrong_split "the row 0" "rows count from 1" '{"train": [1, 2], "test": [0]}'
wrong_split "both in" "a row in two parts" '{"train": [1, 2], "test": [2]}'
wrong_split "no observation is left" "an empty training part" '{"train": [], "test": [2]}'
file split.json '{"train": [1, 2], "test": []}'
expect 5 "" "an empty test part" fit "$dir/mean.stan" "$dir/y.json" "${tiny[@]}" --lambda 0.01 --out "$dir/split" --split "$dir/split.json"
expect 2 "--holdout must be above 0, below 1" "--holdout 1.5" fit "$dir/mean.stan" "$dir/y.json" "${tiny[@]}" --holdout 1.5
expect 2 "must be above 0" "--holdout below 0" fit "$dir/mean.stan" "$dir/y.json" "${tiny[@]}" --holdout -1

# ---- one seed gives the same bytes for any number of threads -------------------------------------------------------------

fit_with() { # THREADS SCORE: the run folder holds the number of threads and the score
  "$PVI" fit examples/golf/logistic.stan examples/golf/golf.csv --score "$2" --family meanfield --draws 64 --iterations 30 --quiet \
    --threads "$1" --out "$dir/$2-$1" >/dev/null 2>"$dir/said"
  status=$?
  [ $status -eq 0 ] || [ $status -eq 5 ]
}
for score in elbo log; do
  fit_with 1 $score
  check $? "fit with --score $score" "$(cat "$dir/said")"
  for threads in 2 "${PVI_THREADS:-3}"; do
    fit_with "$threads" $score && cmp -s "$dir/$score-1/q.json" "$dir/$score-$threads/q.json" &&
      cmp -s "$dir/$score-1/draws.csv" "$dir/$score-$threads/draws.csv" && cmp -s "$dir/$score-1/scores.csv" "$dir/$score-$threads/scores.csv"
    check $? "the same bytes with $threads threads, --score $score" "$(cat "$dir/said")"
  done
done

# ---- help ----------------------------------------------------------------------------------------------------------------

expect 0 "usage: pvi COMMAND" "--help" --help
expect 0 "pvi " "--version" --version
for command in $("$PVI" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p'); do
  expect 0 "usage: pvi $command" "$command --help" "$command" --help
  expect 0 "examples:" "$command --help has examples" "$command" -h
done

# ---- dumps of every example ----------------------------------------------------------------------------------------------

data_of() {
  case $1 in
    */golf/*) echo examples/golf/golf.csv ;;
    */earnings.stan) echo "$shared/data/posteriordb/earnings.json" ;;
    */kidscore.stan) echo "$shared/data/posteriordb/kidiq.json" ;;
    */nes.stan) echo "$shared/data/posteriordb/nes2000.json" ;;
    */wells.stan) echo "$shared/data/posteriordb/wells_data.json" ;;
    */radon.stan) echo "$shared/data/posteriordb/radon_all.json" ;;
    */election.stan) echo "$shared/data/posteriordb/election88.json" ;;
    */glmm.stan) echo "$shared/data/posteriordb/GLMM_data.json" ;;
  esac
}
for example in examples/golf/*.stan examples/paper/*.stan; do
  expect 0 "parameters" "tokens of $example" check "$example" --dump=tokens
  expect 0 "(parameters" "tree of $example" check "$example" --dump=tree
  expect 0 ":real" "types of $example" check "$example" --dump=typed
  data=$(data_of "$example")
  if [ -r "$data" ]; then
    expect 0 "prior %" "graph of $example" check "$example" "$data" --dump=graph
    expect 0 "observations" "tape of $example" check "$example" "$data" --dump=tape
  else
    echo "# skip: ${data:-the data of $example} is absent"
    echo "ok - graph of $example # SKIP"
    echo "ok - tape of $example # SKIP"
  fi
done

# ---- bench ---------------------------------------------------------------------------------------------------------------

expect 0 "ns per observation and draw" "bench" bench "$dir/good.stan" "$dir/good.json" --draws 8
expect 0 '"integration": "exact"' "bench, exact" bench "$dir/good.stan" "$dir/good.json" --integrate exact --json
expect 2 "more than two affine functions" "bench, exact where it is not" bench "$dir/product.stan" "$dir/good.json" --integrate exact
cat >"$dir/flat.stan" <<'EOF'
data { int N; vector[N] y; } parameters { real wide; real<lower=0> flat; } model { wide ~ normal(0, 1e4); y ~ normal(wide, flat); }
EOF
echo '{"N": 5, "y": [1, 2, 3, 2, 1]}' >"$dir/flat.json"
expect 2 "flat has no proper prior" "the prior as regularizer, where there is none" fit "$dir/flat.stan" "$dir/flat.json" --regularize prior --out "$dir/none"
sed 's/model {/model { flat ~ cauchy(0, 2);/' "$dir/flat.stan" >"$dir/proper.stan"
expect 0 '"regularizer": "prior"' "heavy tails and wide priors are proper" fit "$dir/proper.stan" "$dir/flat.json" --regularize prior --lambda 1 --family meanfield --json --out "$dir/proper"
expect 0 '"score": "0.5 log + 2 quadratic"' "a sum of scores" fit "$dir/good.stan" "$dir/good.json" --score log:0.5,quadratic:2 --lambda 0.1 --json --out "$dir/summed"
expect 0 "0.5 log + 2 quadratic, larger is better; train" "is compared by its name" compare "$dir/summed" "$dir/summed"
expect 0 "0.5 log + 2 quadratic" "is predicted by its name" predict "$dir/summed"
expect 2 "the interval score is not defined" "a part that the outcomes do not allow" fit "$dir/good.stan" "$dir/good.json" --score log:0.5,interval:0.5 --lambda 0.1 --out "$dir/none"
expect 2 "--score names log twice" "a score twice in a sum" fit "$dir/good.stan" "$dir/good.json" --score log:0.5,log:0.5 --out "$dir/none"
expect 2 '"quadratic:0" is no such part' "a score without weight in a sum" fit "$dir/good.stan" "$dir/good.json" --score log:0.5,quadratic:0 --out "$dir/none"
expect 2 "a single one takes no weight" "a sum of one score" fit "$dir/good.stan" "$dir/good.json" --score log:0.5 --out "$dir/none"
expect 2 'unknown value of --score "lag"; did you mean "log"?' "an unknown score in a sum" fit "$dir/good.stan" "$dir/good.json" --score lag:0.5,quadratic:1 --out "$dir/none"
expect 2 "elbo is ordinary VI" "VI in a sum" fit "$dir/good.stan" "$dir/good.json" --score log:0.5,elbo:1 --lambda 0.1 --out "$dir/none"
expect 0 '"regularizer": "prior 0.01 + posterior 0.1"' "both regularizers" fit "$dir/good.stan" "$dir/good.json" --regularize prior:0.01,posterior:0.1 --json --out "$dir/both"
expect 2 "--regularize of both says how much of each" "both regularizers, and lambda" fit "$dir/good.stan" "$dir/good.json" --regularize prior:0.01,posterior:0.1 --lambda 0.1 --out "$dir/none"
"$PVI" fit "$dir/good.stan" "$dir/good.json" --regularize prior:0,posterior:0.1 --out "$dir/zero" --quiet && "$PVI" fit "$dir/good.stan" "$dir/good.json" --lambda 0.1 --out "$dir/single" --quiet &&
  cmp -s "$dir/zero/scores.csv" "$dir/single/scores.csv"
check $? "a regularizer without weight is none"
expect 0 "converged" "a flat prior may stand beside the posterior" fit "$dir/flat.stan" "$dir/flat.json" --regularize prior:0.1,posterior:0.1 --family meanfield --out "$dir/beside"
expect 2 "flat has no proper prior" "but not alone" fit "$dir/flat.stan" "$dir/flat.json" --regularize prior:0.1,posterior:0 --out "$dir/none"
expect 2 "unknown value of --metric" "an unknown metric" fit "$dir/good.stan" "$dir/good.json" --metric frob --lambda 0.01 --out "$dir/none"
expect 0 '"quantile"' "every metric there is" fit "$dir/good.stan" "$dir/good.json" --metric all --json --lambda 0.01 --out "$dir/metrics"

# ---- draws of the posterior ----------------------------------------------------------------------------------------------

few=(--chains 16 --draws 60 --warmup 60 --force)
"$PVI" sample "$dir/good.stan" "$dir/good.json" "${few[@]}" --quiet --out "$dir/sampled"
got=$?
[ $got -eq 0 ] || [ $got -eq 5 ]
check $? "sample" "status $got"
"$PVI" sample "$dir/good.stan" "$dir/good.json" "${few[@]}" --out "$dir/sampled" >"$dir/printed"
"$PVI" summary "$dir/sampled" | cmp -s - "$dir/printed"
check $? "pvi summary prints what pvi sample printed"
"$PVI" summary "$dir/sampled" --json | cmp -s - "$dir/sampled/summary.json"
check $? "and as JSON its summary.json"
"$PVI" predict "$dir/sampled" --json >"$dir/predicted" && python3 - "$dir/predicted" "$dir/sampled/scores.csv" <<'END'
import csv, json, sys
predicted, scores = json.load(open(sys.argv[1]))["observations"], list(csv.DictReader(open(sys.argv[2])))
assert len(predicted) == len(scores) and all(abs(p["log"] - float(s["log"])) < 1e-9 for p, s in zip(predicted, scores)), (predicted[0], scores[0])
END
check $? "predictions of draws score as the sampler said" "$(head -c 300 "$dir/predicted")"
expect 0 "Bayes" "draws are compared with a fit" compare "$dir/sampled" "$dir/exact"
expect 2 "holds draws of the posterior" "there is no q to draw from" draws "$dir/sampled"
expect 2 "--bayes nuts is scored on held-out observations: give --folds 5" "exact Bayes needs folds" fit "$dir/good.stan" "$dir/good.json" --lambda 0.1 --bayes nuts --out "$dir/none"
expect 0 '"exact_bayes": {' "exact Bayes beside a fit" fit "$dir/good.stan" "$dir/good.json" --bayes nuts --folds 3 --json --out "$dir/beside2"
expect 0 "exact Bayes (draws of the posterior)" "and its words again" summary "$dir/beside2"
expect 0 "exact Bayes (draws of the posterior)" "and in a diagnosis" diagnose "$dir/good.stan" "$dir/good.json" --bayes nuts --simulations 0
expect 2 "leave out --lambda" "a fit goes on with its own settings" fit --resume "$dir/exact" --lambda 1
expect 2 "leave out model.stan" "and its own program" sample model.stan --resume "$dir/sampled"
expect 3 "pvi sample --resume" "a fit does not go on with draws" fit --resume "$dir/sampled"
expect 3 "holds a fit" "nor draws with a fit" sample --resume "$dir/exact"
expect 2 "missing argument" "sample without a program" sample
expect 2 '"frob" is none of them' "an unknown mass matrix" sample "$dir/good.stan" "$dir/good.json" "${few[@]}" --mass-matrix frob --out "$dir/none"
"$PVI" sample "$dir/good.stan" "$dir/good.json" "${few[@]}" --mass-matrix dense --quiet --out "$dir/mass"
"$PVI" sample "$dir/good.stan" "$dir/good.json" "${few[@]}" --metric dense_e --quiet --out "$dir/mass2"
grep -q '"metric": "dense"' "$dir/mass/summary.json" && grep -q '"metric": "dense"' "$dir/mass2/summary.json"
check $? "the mass matrix, also by CmdStan's word"
expect 2 "unknown value of --metric" "an unknown metric of sample" sample "$dir/good.stan" "$dir/good.json" "${few[@]}" --metric frob --out "$dir/none"
expect 2 "at most 2048" "too many chains" sample "$dir/good.stan" "$dir/good.json" --chains 5000 --out "$dir/none"
said=$("$PVI" sample "$dir/good.stan" "$dir/good.json" "${few[@]}" --metric dense --metric crps --method nuts --init random --json --out "$dir/sampled2" 2>&1)
[[ $said == *'"metric": "dense"'* && $said == *'"crps"'* && $said == *'"start": "random points"'* && $said == *'"pareto_k"'* ]]
check $? "options of sample" "$said"
said=$("$PVI" sample "$dir/good.stan" "$dir/good.json" "${few[@]}" --init "$dir/exact" --out "$dir/sampled3" 2>&1)
[[ $said == *"draws of the q in"* ]]
check $? "sample from the q of a fit" "$said"
# what is computed from the parameters takes part in the decision on more draws, and a multiple of one changes nothing
echo 'data { int N; vector[N] y; } parameters { real a; real<lower=0> s; } model { a ~ normal(0, 5); s ~ normal(0, 5); y ~ normal(a, s); }' >"$dir/plain.stan"
sed 's/model {/transformed parameters { vector[2] t = [2 * a, s \/ 3]'"'"'; } model {/' "$dir/plain.stan" >"$dir/twice.stan"
echo '{"N": 9, "y": [1, 2, 4, 3, 2, 5, 1, 2, 3]}' >"$dir/nine.json"
for name in plain twice; do "$PVI" sample "$dir/$name.stan" "$dir/nine.json" --quiet --out "$dir/$name"; done
[ "$(grep '"draws"' "$dir/plain/summary.json")" = "$(grep '"draws"' "$dir/twice/summary.json")" ] && cmp -s <(grep -v '^#' "$dir/plain/draws_1.csv" | cut -d, -f1-9) <(grep -v '^#' "$dir/twice/draws_1.csv" | cut -d, -f1-9)
check $? "transformed parameters do not change the draws"
echo '{"inv_metric": [0.7, 0.2], "stepsize": 0.3}' >"$dir/metric.json"
said=$("$PVI" sample "$dir/good.stan" "$dir/good.json" --chains 2 --draws 50 --warmup 0 --init "$dir/metric.json" --force --out "$dir/sampled5" 2>&1)
[[ $said == *"with the metric of $dir/metric.json"* ]] && python3 - "$dir/sampled5/draws_1_metric.json" <<'END'
import json, sys
m = json.load(open(sys.argv[1]))
assert abs(m["inv_metric"][0] - 0.7) < 1e-12 and abs(m["inv_metric"][1] - 0.2) < 1e-12 and m["stepsize"] == 0.3, m
END
check $? "a metric file as CmdStan's, used as it is without warm-up" "$said"
"$PVI" sample "$dir/good.stan" "$dir/good.json" "${few[@]}" --mass-matrix "$dir/sampled5/draws_1_metric.json" --quiet --out "$dir/sampled6"
got=$?
[ $got -eq 0 ] || [ $got -eq 5 ]
check $? "the metric of a run is one" "status $got"
for bad in "[1, 2, 3]" '[[1, 2], [2, 1]]' "[1, -1]" '["a", 1]' "{}" '["nan", 1]'; do
  echo "{\"inv_metric\": $bad}" >"$dir/metric.json"
  expect 3 'inv_metric' "no metric: $bad" sample "$dir/good.stan" "$dir/good.json" "${few[@]}" --init "$dir/metric.json" --out "$dir/none"
done
"$PVI" sample "$dir/prior.stan" "${few[@]}" --quiet --out "$dir/sampled4"
got=$?
[ $got -eq 0 ] || [ $got -eq 5 ]
check $? "sample a prior" "status $got"

# ---- the self-contained executable ---------------------------------------------------------------------------------------

static=$(dirname "$PVI")/pvi-static
if [ -x "$static" ]; then
  ! ldd "$static" >/dev/null 2>&1
  check $? "pvi-static needs no library"
  env -i PVI_ISA=base "$static" fit examples/golf/logistic.stan examples/golf/golf.csv --quiet --lambda 0.01 --out "$dir/static"
  check $? "pvi-static fits, with baseline instructions and an empty environment"
else
  echo "# skip: $static is absent (make static)"
  echo "ok - pvi-static # SKIP"
fi

exit $failed
