# tap.sh: for test scripts that speak TAP; sourced. They end with: exit $failed
failed=0

check() { # RESULT NAME [DETAIL]
  if [ "$1" -eq 0 ]; then
    echo "ok - $2"
  else
    echo "not ok - $2"
    [ $# -gt 2 ] && printf '%s\n' "$3" | head -n 20 | sed 's/^/# /'
    failed=1
  fi
}
