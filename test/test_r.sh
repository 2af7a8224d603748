#!/usr/bin/env bash
# test_r.sh: the R package: it installs, gives the draws of the command line, and its errors are R's. Speaks TAP. Needs R (Debian's r-base-core).
set -uo pipefail
cd "$(dirname "$0")/.."
PVI=${PVI:-build/pvi}
. test/tap.sh
if ! command -v R >/dev/null || [[ $PVI == *-torture/* ]] || [ ! -f build/libpvi.a ]; then
  echo "ok - the R package # SKIP R is not installed (r-base-core), or this is no plain build"
  exit 0
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/library"
cp -r r "$dir/package"
rm -f "$dir"/package/src/*.o "$dir"/package/src/*.so
PVI_HOME=$PWD R CMD INSTALL --no-docs --no-test-load --library="$dir/library" "$dir/package" >"$dir/said" 2>&1
check $? "the R package installs" "$(cat "$dir/said")"
! grep '\.c:.*warning' "$dir/said" >"$dir/warned"
check $? "without a warning of the compiler" "$(cat "$dir/warned")"
"$PVI" fit examples/golf/geometric.stan examples/golf/golf.csv --seed 3 --lambda 0.1 --out "$dir/run" --quiet
cat >"$dir/small.stan" <<'END'
data { int N; vector[N] y; } parameters { real a; } model { a ~ normal(0, 1); y ~ normal(a, 1); }
END
echo '{"N": 3, "y": [1, 0.5, 2]}' >"$dir/small.json"
for command in npe nre; do
  "$PVI" $command "$dir/small.stan" "$dir/small.json" --seed 5 --pairs 512 --epochs 3 --out "$dir/$command" --quiet
done
"$PVI" sample "$dir/small.stan" "$dir/small.json" --seed 5 --chains 2 --draws 50 --warmup 50 --method nuts --out "$dir/sample" --quiet
R_LIBS="$dir/library" Rscript r/tests/test.R "$PWD" "$dir/run" "$dir" 2>"$dir/said" | tee "$dir/tap"
[ "${PIPESTATUS[0]}" -eq 0 ] && [ -s "$dir/tap" ]
check $? "every check of the package" "$(tail -n 5 "$dir/said")"
grep -q '^not ok' "$dir/tap" && failed=1
exit $failed
