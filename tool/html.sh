#!/usr/bin/env bash
# html.sh DIR: the pages of doc/ as HTML in DIR, links between them included.
set -euo pipefail
to=$1
mkdir -p "$to/figures" "$to/paper"
cp doc/figures/* "$to/figures"
for page in doc/*.md doc/paper/*.md; do
  name=${page#doc/}
  name=${name%.md}
  [ "$name" = README ] && name=index
  title=$(sed -n '1s/^# //p' "$page")
  sed -e 's/](README\.md)/](index.html)/g' -e 's/](\([a-z/-]*\)\.md/](\1.html/g' "$page" |
    pandoc --from gfm --to html5 --standalone --metadata pagetitle="$title" --variable document-css=1 --output "$to/$name.html"
done
for link in $(cat "$to"/*.html | grep -o 'href="[a-z/-]*\.html' | sed 's/href="//' | sort -u); do # every one leads somewhere
  [ -e "$to/$link" ] || { echo "$link is missing" >&2; exit 1; }
done
echo "$to/index.html"
