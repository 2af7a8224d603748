#!/usr/bin/env bash
# layers.sh [SRC]: folders are layers: a file of src/z may include only from a folder that stands no later than z in the list
# of the Makefile (LAYERS). Prints what offends; exit 1 when something does.
set -uo pipefail
cd "$(dirname "$0")/.."
src=${1:-src}
layers=$(sed -n 's/^LAYERS *:= *//p' Makefile)

find "$src" -type f \( -name '*.[ch]' -o -name '*.def' \) -print0 | sort -z |
  xargs -0 -r grep -Hn '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' |
  awk -v src="$src" -v layers="$layers" '
    BEGIN { n = split(layers, name, " "); for (k = 1; k <= n; k++) rank[name[k]] = k }
    {
      file = $0; sub(/:.*/, "", file)
      from = substr(file, length(src) + 2); sub(/\/.*/, "", from)
      to = $0; sub(/^[^"]*"/, "", to); sub(/".*/, "", to)
      if (to !~ /\//) next # a public header, or one beside the file
      sub(/\/.*/, "", to)
      if (!(from in rank) || !(to in rank)) { print $0 "   <- unknown folder"; bad = 1 }
      else if (rank[to] > rank[from]) { print $0 "   <- " from " stands before " to; bad = 1 }
    }
    END { exit bad }'
