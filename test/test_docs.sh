#!/usr/bin/env bash
# test_docs.sh: every link between the pages leads somewhere, every page is in the index, and what the tutorial shows is what the program says.
# Speaks TAP.
set -uo pipefail
cd "$(dirname "$0")/.."
PVI=${PVI:-build/pvi}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
. test/tap.sh

for page in README.md CONVENTIONS.md doc/*.md doc/paper/*.md; do
  grep -o '](\([^)#: ]*\)' "$page" | sed 's/](//' | while read -r to; do
    [ -e "$(dirname "$page")/$to" ] || echo "$page: $to"
  done
done >"$dir/lost"
[ ! -s "$dir/lost" ]
check $? "every link of the pages leads to a file" "$(cat "$dir/lost")"

for page in doc/*.md; do
  [ "$page" = doc/README.md ] || grep -q "($(basename "$page"))" doc/README.md || echo "$page"
done >"$dir/lost"
[ ! -s "$dir/lost" ]
check $? "every page is in the index" "$(cat "$dir/lost")"

GROWTH="examples/growth/growth.stan examples/growth/growth.csv"
"$PVI" check $GROWTH >"$dir/said"
sed -n '/\$ pvi check/,/^$/s/^    \([^$]\)/\1/p' doc/tutorial.md >"$dir/shown"
[ -s "$dir/shown" ] && ! grep -vxFf "$dir/said" "$dir/shown" >"$dir/differs"
check $? "the tutorial shows what check says" "$(cat "$dir/differs")"

# Last digits are not the same on every machine. A torture build has too few draws and nodes for the numbers.
if [[ $PVI != *-torture/* ]]; then
  "$PVI" fit $GROWTH --out "$dir/run" >"$dir/said" 2>/dev/null
  for line in "varies most: b (13 times Bayes' sd)" "mean      sd  Bayes mean  Bayes sd  sd ratio" "what moved most"; do
    grep -qF "$line" "$dir/said" || echo "$line"
  done >"$dir/differs"
  grep -qF "varies most: b (13 times Bayes' sd)" doc/tutorial.md && [ ! -s "$dir/differs" ]
  check $? "the tutorial shows what fit says" "$(cat "$dir/differs")"
fi
exit $failed
