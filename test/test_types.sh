#!/usr/bin/env bash
# test_types.sh: a few thousand random programs over all builtins (fuzz_types.c), always the same. Speaks TAP.
cd "$(dirname "$0")/.."
exec "$(dirname "${PVI:-build/pvi}")/test/fuzz_types" 4000 1
