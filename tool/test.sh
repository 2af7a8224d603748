#!/usr/bin/env bash
# test.sh DIR: runs all tests: the layer check, the programs DIR/test_* and the scripts test/test_*.sh (PVI names the program
# they test). Every one of them speaks TAP: "ok ...", "not ok ...", "# SKIP". Shows what failed and what was skipped; the last line is
# "N passed, M failed". Exit 1 when something failed.
set -uo pipefail
dir=$(cd "${1:?usage: test.sh DIR}" && pwd)
PVI=$(cd "$(dirname "${PVI:-build/pvi}")" && pwd)/$(basename "${PVI:-build/pvi}")
cd "$(dirname "$0")/.."
export PVI CMOCKA_MESSAGE_OUTPUT=TAP
[ -z "${PVI_SHARED:-}" ] && [ -d ../shared ] && export PVI_SHARED=../shared
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# One test program, its output and status into files: run_one NAME COMMAND
run_one() {
  "$2" >"$out/$1.log" 2>&1
  echo $? >"$out/$1.status"
}
layers_tap() {
  if tool/layers.sh; then echo "ok - includes point down"; else echo "not ok - includes point down"; fi
}
export -f run_one layers_tap
export out

{
  echo layers layers_tap
  for t in "$dir"/test_* test/test_*.sh; do [ -x "$t" ] && [[ $t != *.d ]] && echo "$(basename "$t") $t"; done
} >"$out/list"
xargs -P "${PVI_TEST_JOBS:-$(nproc)}" -L 1 bash -c 'run_one "$0" "$1"' <"$out/list"

passed=0 failed=0 skipped=0
while read -r name _; do
  log=$out/$name.log status=$(cat "$out/$name.status")
  p=$(grep -c '^ok' "$log")
  s=$(grep -cE '^(not )?ok.*# SKIP' "$log")
  f=$(grep -E '^not ok' "$log" | grep -cv '# SKIP')
  p=$((p - $(grep -cE '^ok.*# SKIP' "$log")))
  if [ "$f" -eq 0 ] && [ "$status" -ne 0 ]; then # died without a word
    f=1
    echo "# $name ended with status $status" >>"$log"
  fi
  printf '%-22s %4d passed' "$name" "$p"
  [ "$s" -gt 0 ] && printf ', %d skipped' "$s"
  [ "$f" -gt 0 ] && printf ', %d FAILED' "$f"
  echo
  grep -E '^# skip|^skipped:' "$log" | sort -u | sed 's/^#* */    /'
  [ "$f" -gt 0 ] && grep -vE '^ok|^1\.\.' "$log" | tail -n 60 | sed 's/^/    /'
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
done <"$out/list"
[ "$skipped" -gt 0 ] && echo "$skipped skipped"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
