#!/usr/bin/env bash
# test_examples.sh: the example programs, reduced: do they run, and does the table say what doc/examples.md says? The programs are
# beside PVI, in examples/. Speaks TAP. A torture build has too few draws for the numbers: there they need only run.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
PVI=${PVI:-build/pvi}
dir=$(dirname "$PVI")/examples
torture=0
[[ $PVI == *-torture/* ]] && torture=1
. test/tap.sh

# example NAME OPTIONS...: its output into $said
example() {
  local name=$1 status
  shift
  if [ ! -x "$dir/$name/$name" ]; then
    echo "# skip: $dir/$name/$name is absent (make examples)"
    echo "ok - $name # SKIP"
    return 1
  fi
  said=$("$dir/$name/$name" "$@" 2>&1)
  status=$?
  check $status "$name runs" "$said"
  [ $status -eq 0 ]
}

# expect NAME CONDITION: an awk condition on the fields of some line of $said
expect() {
  if [ $torture -eq 1 ]; then
    echo "ok - $1 # SKIP"
  else
    awk "$2 { found = 1 } END { exit !found }" <<<"$said"
    check $? "$1" "$said"
  fi
}

# run NAME OPTIONS TINY: the example with those options (words), in a torture build with the tiny ones
run() {
  local options="--threads=1 $2"
  [ $torture -eq 1 ] && options=$3
  # shellcheck disable=SC2086
  example "$1" $options
}

# columns: sigma, n, score, mean sd
if run normal "--simulations=2 --n=100" "--simulations=1 --n=30 --draws=16 --sigma=2"; then
  for score in log crps interval; do
    expect "$score: wide where the model is wrong" "\$1 == 2 && \$3 == \"$score\" && \$4 > 1.4 && \$4 < 2.1"
    expect "$score: narrow where it is right" "\$1 == 1 && \$3 == \"$score\" && \$4 < 0.6"
  done
  expect "VI is narrow either way" '$1 == 2 && $3 == "elbo" && $4 > 0.09 && $4 < 0.11'
fi

# columns: noise (words), trained on, coverage, log, crps, interval; from the right because of the words
if run scores "--simulations=1 --n=150 --test=1000 --setting=4" "--simulations=1 --n=30 --test=20 --setting=2 --draws=16"; then
  expect "interval training covers, outliers or not" 'NF > 9 && $(NF - 6) == "interval" && $(NF - 5) > 0.86 && $(NF - 5) < 0.97'
  expect "crps training is not led by outliers" 'NF > 9 && $(NF - 6) == "crps" && $(NF - 5) < 0.97 && $(NF - 4) > -1.48'
  expect "VI pays for the outliers" 'NF > 9 && $(NF - 6) == "elbo" && $(NF - 4) < -1.55'
fi

if run scalability "--most=300" "--most=10"; then
  expect "PVI is above VI" '/PVI is above VI at 4 of 4/'
  expect "its elpd is near the best, -1.766 a dimension" '$1 == 300 && $6 > -1.79 && $6 < -1.76'
fi
if run scalability "--most=30 --joint=1" "--most=10 --joint=1 --n=10"; then
  expect "whole vectors: PVI is above VI" '/PVI is above VI at 2 of 2/'
fi

# columns: alpha, method, CRPS, its ratio to PVI's
if run likelihood_free "--n=150 --iterations=100 --alpha=1" "--n=20 --iterations=3 --alpha=1"; then
  expect "a distribution predicts better than a point" '$1 == 1 && $2 == "point" && $4 > 1.01'
fi
if run likelihood_free "--n=150 --iterations=40 --networks=1 --pairs=3000 --epochs=15 --alpha=0" "--n=20 --iterations=2 --networks=1 --pairs=600 --epochs=1 --alpha=0"; then
  for network in NPE NRE; do
    expect "where the model is right $network predicts as PVI does" "\$1 == 0 && \$2 == \"$network\" && \$4 > 0.9 && \$4 < 1.1"
  done
fi

if example simulator; then
  expect "the simulator's population is found" "{ gsub(/.*PVI: normal|[(,)]/, \" \") } \$1 > 1.9 && \$1 < 2.1 && \$2 > 0.4 && \$2 < 0.6"
fi

# columns: seed, n, snr, pose, |, KS of q, mean, seconds, converged, |, KS of Bayes; skips visibly without the conformations
if example cryoem $([ $torture -eq 1 ] && echo "--check=1" || echo "--pixels=16 --n=1000 --snr=1 --iterations=400 --bayes=50"); then
  if [[ $said == "# skip"* ]]; then
    echo "$said"
  elif [ $torture -eq 0 ]; then
    expect "cryo-EM: q is near the population, Bayes is a point" '$2 == 1000 && $6 < 0.15 && $11 > 0.3'
    example cryoem --check=1 && expect "the images are those of the Stan program" '/difference/ && $NF < 1e-8 && $NF > -1e-8'
  fi
fi

# --help and the comment at the top agree; what is not an option is refused by name.
for name in normal scores scalability likelihood_free cryoem; do
  [ -x "$dir/$name/$name" ] || continue
  said=$("$dir/$name/$name" --help)
  listed=$(sed -n '1,/\*\//p' "examples/$name/$name.c" | grep -o '\[--[a-z]*=[a-z0-9.]*' | tr -d '[' | sort)
  [ -n "$listed" ] && [ "$listed" = "$(grep -o '^ *--[a-z]*=[a-z0-9.]*' <<<"$said" | tr -d ' ' | sort)" ]
  check $? "$name --help is its comment" "$said"
  for wrong in --nothing=1 --threads --threads=x --threads=0.5 --threads=-1; do
    said=$("$dir/$name/$name" $wrong 2>&1)
    [ $? -eq 2 ] && [[ $said == *"$name: $wrong: "* ]]
    check $? "$name refuses $wrong" "$said"
  done
done

# The data of likelihood_free, from the command line.
if [ -x "$dir/likelihood_free/likelihood_free" ]; then
  data=$(mktemp --suffix=.json)
  "$dir/likelihood_free/likelihood_free" --n=20 --data=1 >"$data"
  said=$("$PVI" check examples/likelihood_free/squares.stan "$data" --simulate y2_sim --observed y2 2>&1)
  check $? "squares.stan takes the data that likelihood_free prints" "$said"
  said=$("$PVI" check examples/likelihood_free/halves.stan "$data" --simulate y2_sim --observed y2 2>&1)
  check $? "and halves.stan" "$said"
  rm -f "$data"
fi

# Of an election program without ethnicity and income, and of the right one, the words are right.
if [ $torture -eq 0 ]; then
  out=$(mktemp -d)
  for program in state varying; do
    "$PVI" fit examples/election/$program.stan examples/election/synthetic.csv --out "$out/$program" >"$out/$program.txt" 2>&1
  done
  tr '\n' ' ' <"$out/state.txt" | grep -q "held-out gain over Bayes +[5-7][0-9][0-9].*what *varies most: b1"
  check $? "election without ethnicity and income: wide" "$(head -n 8 "$out/state.txt")"
  grep -q "Bayes is enough here" "$out/varying.txt"
  check $? "election with a slope for every state: right" "$(head -n 8 "$out/varying.txt")"
  rm -rf "$out"
fi
exit $failed
