#!/usr/bin/env bash
# test_library.sh: the library and the command line are one: what each may use, and the same bytes from both.
set -uo pipefail
cd "$(dirname "$0")/.."
PVI=${PVI:-build/pvi}
. test/tap.sh
build=$(dirname "$PVI")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
GOLF="examples/golf/logistic.stan examples/golf/golf.csv"

# ---- symbols ----
nm -g --defined-only "$build/libpvi.a" 2>/dev/null | awk 'NF == 3 {print $3}' | sort -u >"$dir/ours"
for source in src/cli/*.c; do nm -u "$build/cli/$(basename "$source" .c).o"; done | awk '$1 == "U" {print $2}' | sort -u >"$dir/used"
others=$(comm -12 "$dir/ours" "$dir/used" | grep -v '^pvi_')
[ -z "$others" ] && [ -s "$dir/ours" ] && [ -s "$dir/used" ]
check $? "the command line uses nothing of the library but pvi_*${others:+: $others}"
exported=$(nm -D --defined-only "$build/libpvi.so" | awk '{print $NF}' | sed 's/@.*//')
[ -n "$exported" ] && ! grep -v '^pvi_' <<<"$exported"
check $? "libpvi.so exports pvi_* only"
missing=$(sed -n 's/^[a-z].*[ *]\(pvi_[a-z_]*\)(.*/\1/p' include/pvi.h | sort -u | grep -vxF -f <(echo "$exported"))
[ -z "$missing" ]
check $? "libpvi.so has every function of pvi.h${missing:+, but not $missing}"
objdump -p "$build/libpvi.so" 2>/dev/null | grep -q 'SONAME *libpvi.so.0$' || readelf -d "$build/libpvi.so" | grep -q 'libpvi.so.0\]'
check $? "libpvi.so has a soname"

# ---- the same bytes from both: every family and every score ----
cat >"$dir/line.stan" <<'STAN'
data { int n; vector[n] x; vector[n] y; }
parameters { real a; real b; real<lower=0> s; }
model { a ~ normal(0, 5); b ~ normal(0, 5); s ~ exponential(1); y ~ normal(a + b * x, s); }
generated quantities { vector[n] y_sim; for (i in 1:n) y_sim[i] = normal_rng(a + b * x[i], s); }
STAN
echo '{"n": 8, "x": [1, 2, 3, 4, 5, 6, 7, 8], "y": [1.2, 1.9, 3.3, 3.8, 5.4, 5.7, 7.5, 7.9]}' >"$dir/line.json"
LINE="$dir/line.stan $dir/line.json"
same=0
while read -r which line; do
  same=$((same + 1))
  [ "$which" = golf ] && files=$GOLF || files=$LINE
  options=() words=()
  for word in $line; do
    words+=("$word")
    name=${word%%=*} value=${word#*=}
    if [ "$value" = true ]; then options+=("--$name"); else options+=("--$name" "$value"); fi
  done
  "$PVI" fit $files "${options[@]}" --quiet --out "$dir/cli$same" >"$dir/said" 2>&1
  cli=$?
  "$build/test/api_fit" $files "${words[@]}" "out=$dir/api$same" >>"$dir/said" 2>&1
  api=$?
  equal=0
  for file in draws.csv q.json scores.csv fit.json; do cmp -s "$dir/cli$same/$file" "$dir/api$same/$file" || equal=1; done
  cmp -s <(grep -v '"seconds"' "$dir/cli$same/summary.json") <(grep -v '"seconds"' "$dir/api$same/summary.json") || equal=1
  cmp -s <(cut -d, -f1,3- "$dir/cli$same/trace.csv") <(cut -d, -f1,3- "$dir/api$same/trace.csv") || equal=1
  [ $equal -eq 0 ] && [ $cli -eq $api ] && { [ $cli -eq 0 ] || [ $cli -eq 5 ]; }
  check $? "the same bytes from the library and the command line: $line"
done <<'SETS'
golf score=log
golf score=elbo family=meanfield seed=3
golf score=quadratic family=fullrank holdout=0.3 metric=all
golf score=crps family=lowrank rank=1 iterations=30 draws=64
golf score=log family=mixture components=3 lambda=0.1 regularize=prior
golf score=log family=spline knots=8 draws=32 iterations=15
golf score=log family=flow layers=1 draws=32 iterations=10
golf score=log family=realnvp layers=2 hidden=4 draws=32 iterations=10
golf score=dawid_sebastiani family=meanfield point=theta1 save-draws=20
golf score=log optimizer=adam iterations=50 draws=16 minibatch=7 learning-rate=0.02 schedule=step clip=10
golf score=log interpolate=true lambda=0.5 integrate=draws draws=64 iterations=20 threads=1
line score=interval family=meanfield iterations=20
line score=quantile family=fullrank iterations=20
line score=weighted_interval family=meanfield iterations=20
line score=crps_sim family=meanfield draws=32 iterations=10
line score=crps_pairs family=meanfield draws=32 iterations=10
line score=interval_sim family=meanfield draws=32 iterations=10
line score=energy family=meanfield draws=32 iterations=10 simulate=y_sim lambda=0
line score=mmd family=meanfield draws=32 iterations=10 simulate=y_sim observed=y lambda=0
SETS

# ---- as a user installs it ----
if make -s install DESTDIR="$dir/tree" PREFIX=/usr BUILD="$build" >"$dir/said" 2>&1; then
  pc=$dir/tree/usr/lib/pkgconfig/pvi.pc
  grep -q '^libdir=${prefix}/lib$' "$pc"
  check $? "pkg-config names libdir"
  if nm -D "$build/libpvi.so" | grep __asan >/dev/null; then # all of it is read: nm must not be cut off
    echo "ok - a program built against the installed shared library # SKIP under sanitizers"
  else
    ${CC:-gcc} -I"$dir/tree/usr/include" -o "$dir/simulator" examples/simulator/simulator.c -L"$dir/tree/usr/lib" -lpvi -lm 2>"$dir/said" &&
      LD_LIBRARY_PATH=$dir/tree/usr/lib "$dir/simulator" | grep -q 'PVI: normal'
    check $? "a program built against the installed shared library runs"
  fi
  [ -s "$dir/tree/usr/share/man/man1/pvi.1" ] && bash -n "$dir/tree/usr/share/bash-completion/completions/pvi"
  check $? "the manual page and the completion are installed"
else
  check 1 "make install: $(tail -n 2 "$dir/said")"
fi
cmp -s doc/options.md <("$PVI" manual markdown) && cmp -s doc/pvi.1 <("$PVI" manual man)
check $? "doc/options.md and doc/pvi.1 are what the tables say (make docs writes them)"
exit $failed
