#!/usr/bin/env bash
# valgrind.sh DIR: a reduced set of tests under valgrind: those that are short and touch every layer. PVI names the program.
# Valgrind knows no AVX-512, so the kernels run on AVX2.
set -uo pipefail
cd "$(dirname "$0")/.."
dir=${1:?usage: valgrind.sh DIR}
PVI=${PVI:-build/pvi}
export PVI_ISA=avx2 CMOCKA_MESSAGE_OUTPUT=TAP
check() { valgrind -q --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite "$@"; }

failed=0
run() { # COMMAND...: statuses up to 5 are pvi's own
  echo "$*"
  check "$@" >/dev/null
  [ $? -le 5 ] || failed=1
}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
echo '[[0.1, -0.1]]' >"$out/points.json"
golf=(examples/golf/logistic.stan examples/golf/golf.csv)
tiny=(--draws 8 --iterations 3 --save-draws 3 --threads 2 --quiet --out "$out/run")
run "$PVI" check "${golf[@]}"
run "$PVI" density "${golf[@]}" --at "$out/points.json" --json
run "$PVI" fit "${golf[@]}" "${tiny[@]}" --score crps
run "$PVI" fit "${golf[@]}" --iterations 3 --save-draws 3 --threads 2 --quiet --lambda 0.01 --out "$out/run"
run "$PVI" fit test/models/low_dim_gauss_mix.stan --set N=4 --set 'y=[1.2, -1.3, 2.4, -2.1]' "${tiny[@]}"
run "$PVI" fit test/models/garch11.stan --set T=3 --set 'y=[1.2, -1.3, 2.4]' --set sigma1=0.5 "${tiny[@]}" --score elbo --optimizer adam
for t in test_base test_vm; do run "$dir/$t"; done
[ $failed -eq 0 ] && echo "no errors"
exit $failed
