#!/usr/bin/env bash
# test_resume.sh: interrupted fits: kill -9, Ctrl-C, SIGTERM; a folder never loses another fit. `make crash` kills more and longer fits.
set -uo pipefail
cd "$(dirname "$0")/.."
PVI=${PVI:-build/pvi}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
. test/tap.sh
GOLF="examples/golf/logistic.stan examples/golf/golf.csv"
SLOW="$GOLF --family flow --draws 512 --iterations 150"

tool/crash.sh 6 0.05 $SLOW | sed 's/- /- flow by draws: /'
[ "${PIPESTATUS[0]}" -eq 0 ] || failed=1
tool/crash.sh 4 0.05 $GOLF --optimizer adam --iterations 4000 --minibatch 7 --draws 64 | sed 's/- /- adam: /'
[ "${PIPESTATUS[0]}" -eq 0 ] || failed=1

# ---- signals ----
for signal in INT TERM; do
  code=130
  [ $signal = TERM ] && code=143
  "$PVI" fit $GOLF --family flow --draws 2048 --lambda 0.01 --out "$dir/$signal" >"$dir/out" 2>"$dir/said" &
  pid=$!
  sleep 1
  kill -$signal $pid
  kill -$signal $pid # timeout(1) sends it to the process and to its group: the same once more, no second thought
  wait $pid
  [ $? -eq $code ] && grep -q -- "--resume $dir/$signal" "$dir/said"
  check $? "SIG$signal ends a fit with status $code and tells how to go on" "$(cat "$dir/said")"
  grep -q INTERRUPTED "$dir/out" && "$PVI" summary "$dir/$signal" >"$dir/out" 2>&1 && grep -q '"interrupted": true' "$dir/$signal/summary.json"
  check $? "SIG$signal leaves a run that can be read" "$(cat "$dir/out")"
done

# ---- folders ----
"$PVI" fit $GOLF --quiet --lambda 0.01 --out "$dir/a"
"$PVI" fit $GOLF --quiet --out "$dir/a" --lambda 0.5 2>"$dir/said"
[ $? -eq 2 ] && grep -q "holds another fit" "$dir/said" && grep -q '"lambda": 0.01' "$dir/a/summary.json"
check $? "a folder with another fit is left alone" "$(cat "$dir/said")"
"$PVI" fit $GOLF --quiet --out "$dir/a" --lambda 0.5 --force && grep -q '"lambda": 0.5' "$dir/a/summary.json"
check $? "--force replaces it"
"$PVI" fit $GOLF --quiet --out "$dir/a" --lambda 0.5
check $? "the same fit may be made again"
here=$PWD
(cd "$dir" && for lambda in 0.01 0.2; do
  "$here/$PVI" fit "$here/examples/golf/logistic.stan" "$here/examples/golf/golf.csv" --lambda $lambda --quiet || "$PVI" fit "$here/examples/golf/logistic.stan" "$here/examples/golf/golf.csv" --lambda $lambda --quiet
done 2>/dev/null
[ "$(ls pvi-runs | wc -l)" -eq 2 ])
check $? "default folders are named by what differs" "$(ls "$dir/pvi-runs" 2>&1)"
"$PVI" fit --resume "$dir/a" --quiet
check $? "resuming a finished fit changes nothing"
"$PVI" fit --resume "$dir/absent" --quiet 2>"$dir/said"
[ $? -eq 3 ] && grep -q "there is no run folder" "$dir/said"
check $? "resuming what is no run is an error" "$(cat "$dir/said")"
# A disk that does not take what was written: nothing may be called written before it is on the disk.
if [[ $PVI == *-torture/* ]]; then
  echo "ok - a disk that fails # SKIP the sanitizers want to be first among the libraries"
else
  printf '#include <errno.h>\nint fsync(int fd) { (void)fd; errno = EIO; return -1; }\n' >"$dir/fails.c"
  ${CC:-gcc} -shared -fPIC -o "$dir/fails.so" "$dir/fails.c"
  LD_PRELOAD="$dir/fails.so" "$PVI" fit $GOLF --quiet --lambda 0.1 --out "$dir/lost" 2>"$dir/said"
  [ $? -eq 1 ] && grep -q "Input/output error" "$dir/said" && [ ! -e "$dir/lost/summary.json" ]
  check $? "a disk that fails is an error, and nothing half written takes a name" "$(cat "$dir/said"; ls "$dir/lost" 2>&1)"
fi
# A choice on folds whose fit to all data has no optimum gives way to the next. Killed at a save, in either fit, the run ends with the same bytes.
NOISE="test/people/measurement.stan test/people/measurement.json --free all --lambda auto --quiet"
fit_of() { (cd "$1" && cat draws.csv q.json scores.csv && grep -v '"seconds"' summary.json); }
"$PVI" fit $NOISE --out "$dir/whole" --checkpoint 0 && grep -q 'lambda 3 was chosen.*lambda 1 predicted.*did not converge: unbounded' "$dir/whole/summary.json"
check $? "a choice without an optimum gives way to one that is held back more" "$(grep verdict "$dir/whole/summary.json")"
if [[ $PVI == *-torture/* ]]; then
  echo "ok - a run that is killed at its saves # SKIP the sanitizers want to be first among the libraries"
else
  printf '#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\nstatic long n;\nint fsync(int fd) { (void)fd; if (++n == atol(getenv("DIES_AT"))) _exit(9); return 0; }
__attribute__((destructor)) static void told(void) { FILE *f = fopen(getenv("COUNT"), "w"); if (f) fprintf(f, "%%ld", n), fclose(f); }\n' >"$dir/dies.c"
  ${CC:-gcc} -shared -fPIC -o "$dir/dies.so" "$dir/dies.c"
  COUNT="$dir/saves" DIES_AT=0 LD_PRELOAD="$dir/dies.so" "$PVI" fit $NOISE --out "$dir/counted" --checkpoint 0
  saves=$(cat "$dir/saves") wrong=
  for part in 10 50 90 97; do
    run=$dir/died$part
    COUNT=/dev/null DIES_AT=$((saves * part / 100)) LD_PRELOAD="$dir/dies.so" "$PVI" fit $NOISE --out "$run" --checkpoint 0
    [ $? -eq 9 ] && "$PVI" fit --resume "$run" --quiet && fit_of "$run" | cmp -s - <(fit_of "$dir/whole") || wrong="$wrong $part%"
  done
  [ -z "$wrong" ] && [ "$saves" -gt 100 ]
  check $? "a run that is killed at one of its saves ends with the same bytes" "of $saves saves, at:$wrong"
fi
printf 'broken' >"$dir/a/checkpoint.bin"
"$PVI" fit --resume "$dir/a" --quiet 2>"$dir/said"
[ $? -eq 3 ] && grep -q "is damaged" "$dir/said"
check $? "a damaged checkpoint is an error" "$(cat "$dir/said")"
exit $failed
