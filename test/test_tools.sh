#!/usr/bin/env bash
# test_tools.sh: the scripts that build and test themselves: do they see what they are there to see? Speaks TAP.
set -uo pipefail
cd "$(dirname "$0")/.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failed=0
check() {
  if [ "$1" -eq 0 ]; then echo "ok - $2"; else echo "not ok - $2" && failed=1; fi
}

# layers.sh: down is right, up is wrong, an unknown folder is wrong
mkdir -p "$dir/src/base" "$dir/src/vm" "$dir/src/else"
echo '#include "base/base.h"' >"$dir/src/vm/vm.c"
echo '#include <stdio.h>' >"$dir/src/base/base.c"
tool/layers.sh "$dir/src" >/dev/null
check $? "includes that point down"
echo '#include "vm/vm.h"' >"$dir/src/base/base.h"
said=$(tool/layers.sh "$dir/src")
[ $? -eq 1 ] && [[ $said == *"base.h:1:"*"base stands before vm"* ]]
check $? "an include that points up"
echo >"$dir/src/base/base.h"
echo '#include "base/base.h"' >"$dir/src/else/x.c"
! tool/layers.sh "$dir/src" >/dev/null
check $? "a folder that is in no layer"

# mutants.py: each still changes one place of the source
python3 tool/mutants.py --stale
check $? "no mutant is stale"

# deps.sh: nothing to do, and nothing that could be done
tool/deps.sh make libc6-dev >"$dir/said" 2>&1 && [ ! -s "$dir/said" ]
check $? "nothing is missing"
mkdir "$dir/bin"
for tool in bash id sed; do ln -s "$(command -v $tool)" "$dir/bin/$tool"; done
said=$(PATH=$dir/bin bash tool/deps.sh no-such-tool 2>&1)
[ $? -eq 1 ] && [[ $said == *"install by hand"*"no-such-tool"* ]]
check $? "a machine without apt-get is told what to install"

# test.sh: counts, and the last line
mkdir "$dir/tests" "$dir/repo" "$dir/repo/test" "$dir/repo/src"
cp -r tool Makefile "$dir/repo"
printf '#!/bin/sh\necho "ok 1 - a"\necho "not ok 2 - b"\necho "not ok 3 # SKIP c"\nexit 1\n' >"$dir/tests/test_some"
printf '#!/bin/sh\necho "ok 1 - a"\nkill -9 $$\n' >"$dir/tests/test_killed"
printf '#!/bin/sh\necho "ok - x"\n' >"$dir/repo/test/test_script.sh"
chmod +x "$dir"/tests/* "$dir/repo/test/test_script.sh"
said=$(PVI=$dir/none "$dir/repo/tool/test.sh" "$dir/tests" 2>/dev/null)
[ $? -eq 1 ] && [ "$(tail -n 1 <<<"$said")" = "4 passed, 2 failed" ] && [[ $said == *"1 skipped"* ]]
check $? "tests are counted, those that die too"
rm "$dir"/tests/*
said=$(PVI=$dir/none "$dir/repo/tool/test.sh" "$dir/tests" 2>/dev/null)
[ $? -eq 0 ] && [ "$(tail -n 1 <<<"$said")" = "2 passed, 0 failed" ]
check $? "success is status 0"

exit $failed
