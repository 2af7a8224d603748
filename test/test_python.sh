#!/usr/bin/env bash
# test_python.sh: the Python package (python/) on build/libpvi.so, with Debian's python3 and numpy: draws as those of the command line, errors as
# exceptions, Ctrl-C. Speaks TAP; skips visibly without numpy.
set -uo pipefail
cd "$(dirname "$0")/.."
PVI=$(realpath "${PVI:-build/pvi}")
export PVI PVI_LIBRARY=${PVI_LIBRARY:-$(dirname "$PVI")/libpvi.so} PYTHONPATH=python PYTHONDONTWRITEBYTECODE=1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
. test/tap.sh
case $PVI in *-torture/*) # the sanitizers' runtime must come first into a process that was not built with it
  echo "ok - the Python package # SKIP"
  echo "# skip: the Python package is not run under the sanitizers"
  exit 0 ;;
esac
for py in "${PYTHON:-python3}" /usr/bin/python3; do
  "$py" -c 'import numpy' 2>/dev/null && break
  py=
done
if [ -z "$py" ]; then
  echo "ok - the Python package # SKIP"
  echo "# skip: no python3 with numpy (apt install python3-numpy)"
  exit 0
fi
OUT=$dir "$py" test/python_package.py
[ $? -eq 0 ] || failed=1

# Ctrl-C: a fit of minutes ends with what it has
cat >"$dir/long.py" <<'END'
import signal, warnings
import pvi
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts what is in the background without
warnings.simplefilter("ignore")
m = pvi.Model("examples/golf/logistic.stan", "examples/golf/golf.csv")
print("ready", flush=True)
f = m.fit(lambda_=0.01, family="flow", draws=8192, iterations=1000000, integrate="draws")
print("interrupted" if f.interrupted else "done", len(f.draws(10)["theta0"]))
END
"$py" "$dir/long.py" >"$dir/said" 2>&1 &
pid=$!
for _ in $(seq 100); do grep -q ready "$dir/said" && break; sleep 0.1; done
sleep 1
kill -INT $pid
wait $pid
[ $? -eq 0 ] && grep -qx 'interrupted 10' "$dir/said"
check $? "Ctrl-C ends a fit with the best q so far" "$(cat "$dir/said")"

# pip: installed into an environment of its own, with the library, it needs neither the checkout nor PVI_LIBRARY
if "$py" -c 'import ensurepip, setuptools, wheel' 2>/dev/null && "$py" -m venv --system-site-packages "$dir/venv" 2>/dev/null; then
  cp -r python "$dir/package"
  "$dir/venv/bin/pip" install -q --no-index --no-deps --no-build-isolation --disable-pip-version-check "$dir/package" >"$dir/said" 2>&1
  check $? "pip installs the package" "$(tail -n 5 "$dir/said")"
  cat >"$dir/own.py" <<'END'
import pvi, sys
assert pvi.__file__.startswith(sys.prefix), pvi.__file__
f = pvi.Model("parameters { real a; } model { a ~ normal(1, 2); }").fit(score="elbo", seed=1)
assert f.converged and abs(f.mean[0] - 1) < 1e-6 and abs(f.sd[0] - 2) < 1e-6
END
  (cd "$dir" && env -u PVI_LIBRARY -u PYTHONPATH "$dir/venv/bin/python" own.py) >"$dir/said" 2>&1
  check $? "and it runs from there" "$(tail -n 5 "$dir/said")"
else
  echo "ok - pip installs the package # SKIP"
  echo "# skip: no venv, setuptools or wheel (apt install python3-venv python3-wheel)"
fi
exit $failed
