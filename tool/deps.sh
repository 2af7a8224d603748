#!/usr/bin/env bash
# deps.sh PACKAGE...: installs the Debian packages that are missing. Whether one is there is asked of the thing itself, not of
# the package manager, so on other systems it is enough to have the tools. Nothing missing: nothing done, no network.
set -uo pipefail

# Does this C text compile and link? links OPTIONS < text
links() { ${CC:-gcc} -x c - -o /dev/null "$@" 2>/dev/null; }

present() {
  case $1 in
    gcc) command -v "${CC:-gcc}" ;;
    libc6-dev) echo '#include <pthread.h>
int main(void) { return 0; }' | links -pthread -lm ;;
    libcmocka-dev) echo '#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
int main(void) { return cmocka_run_group_tests((const struct CMUnitTest[]){{0}}, 0, 0); }' | links -lcmocka ;;
    libclang-rt-*) echo 'int main(void) { return 0; }' | CC=clang links -fsanitize=address,undefined ;;
    r-base-core) command -v R ;;
    r-cran-*) Rscript -e "quit(status = !requireNamespace('${1#r-cran-}', quietly = TRUE))" 2>/dev/null ;;
    python3-numpy) python3 -c "import numpy" 2>/dev/null || /usr/bin/python3 -c "import numpy" 2>/dev/null ;;
    *) command -v "$1" ;;
  esac >/dev/null
}

missing=()
for package in "$@"; do present "$package" || missing+=("$package"); done
[ ${#missing[@]} -eq 0 ] && exit 0

by_hand() {
  echo "$1. Please install by hand (Debian's names): ${missing[*]}" >&2
  exit 1
}

command -v apt-get >/dev/null || by_hand "Something is missing and there is no apt-get here"
if [ "$(id -u)" -eq 0 ]; then
  root=()
elif command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
  root=(sudo)
else
  by_hand "Something is missing and neither root nor sudo is at hand"
fi
export DEBIAN_FRONTEND=noninteractive
install() { "${root[@]}" apt-get install -y --no-install-recommends "${missing[@]}"; }
echo "installing ${missing[*]}"
install || { "${root[@]}" apt-get update && install; } || by_hand "apt-get could not install everything"
for package in "${missing[@]}"; do present "$package" || by_hand "$package was installed but does not work"; done
