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
run() {
  echo "$*"
  check "$@" >/dev/null || failed=1
}
points=$(mktemp)
trap 'rm -f "$points"' EXIT
echo '[[0.1, -0.1]]' >"$points"
run "$PVI" check examples/golf/logistic.stan examples/golf/golf.csv
run "$PVI" density examples/golf/logistic.stan examples/golf/golf.csv --at "$points" --json
for t in test_base test_vm test_model; do run "$dir/$t"; done
[ $failed -eq 0 ] && echo "no errors"
exit $failed
