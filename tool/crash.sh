#!/usr/bin/env bash
# crash.sh KILLS CHECKPOINT COMMAND...: is a fit safe from kill -9? COMMAND is the arguments of `pvi fit`, without --out. The fit runs once
# to its end; then it is begun in folders of their own, killed after a random part of that time, and resumed (every third time killed
# and resumed once more), until KILLS processes were killed. All files but the times in them must be those of the whole run, and at no moment may a
# file be broken. Speaks TAP, three lines however many runs it takes to kill so many. PVI names the program.
set -uo pipefail
cd "$(dirname "$0")/.."
PVI=${PVI:-build/pvi}
kills=$1 checkpoint=$2
shift 2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
. test/tap.sh

# without_times FOLDER: what must be the same
without_times() {
  (cd "$1" && cat draws.csv q.json scores.csv && grep -v '"seconds"' summary.json && cut -d, -f1,3- trace.csv)
}

# broken FOLDER: names a file that is neither whole nor absent
broken() {
  local f
  for f in "$1"/*.json; do
    [ -e "$f" ] || continue
    tail -c 2 "$f" | grep -q '}' || echo "$f"
  done
  for f in "$1"/*.csv; do
    [ -e "$f" ] && [ -n "$(tail -c 1 "$f")" ] && echo "$f"
  done
}

start=$(date +%s%N)
"$PVI" fit --lambda 0.01 "$@" --out "$dir/whole" --checkpoint "$checkpoint" --quiet >"$dir/said" 2>&1
status=$?
elapsed=$((($(date +%s%N) - start) / 1000000))
{ [ $status -eq 0 ] || [ $status -eq 5 ]; }
check $? "the whole fit ends ($elapsed ms)" "$(cat "$dir/said")"
without_times "$dir/whole" >"$dir/whole.txt"

killed=0 runs=0
: >"$dir/wrong"
for k in $(seq $((3 * kills))); do
  [ $killed -ge "$kills" ] && break
  run=$dir/run$k
  "$PVI" fit --lambda 0.01 "$@" --out "$run" --checkpoint "$checkpoint" --quiet >/dev/null 2>&1 &
  pid=$!
  for turn in 1 2; do
    after=$((RANDOM * 32768 + RANDOM))
    sleep "$(awk -v t=$((after % (elapsed + 1))) 'BEGIN {print t / 1000}')"
    kill -9 $pid 2>/dev/null && killed=$((killed + 1))
    wait $pid 2>/dev/null
    bad=$(broken "$run")
    [ -n "$bad" ] && break
    [ $turn -eq 1 ] && [ $((k % 3)) -eq 0 ] || break
    "$PVI" fit --resume "$run" --quiet >/dev/null 2>&1 &
    pid=$!
  done
  rm -f "$run"/.*.tmp
  if [ ! -e "$run/fit.json" ]; then # killed before it began
    "$PVI" fit --lambda 0.01 "$@" --out "$run" --checkpoint "$checkpoint" --quiet >"$dir/said" 2>&1
  else
    "$PVI" fit --resume "$run" --quiet >"$dir/said" 2>&1
  fi
  now=$?
  [ -z "$bad" ] && [ $now -eq $status ] && without_times "$run" 2>/dev/null | cmp -s - "$dir/whole.txt"
  [ $? -eq 0 ] || echo "run $k: ${bad:+broken: $bad }status $now: $(cat "$dir/said")" >>"$dir/wrong"
  runs=$((runs + 1))
  rm -rf "$run"
done
[ ! -s "$dir/wrong" ]
check $? "killed and resumed, $runs runs: the same bytes" "$(cat "$dir/wrong")"
[ $killed -ge "$kills" ]
check $? "fits were killed ($killed)"
exit $failed
