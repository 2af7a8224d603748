#!/usr/bin/env bash
# test_page.sh: `pvi report`: one HTML file that needs nothing else; every figure has size and words. Where chromium is installed, it opens the page.
set -uo pipefail
cd "$(dirname "$0")/.."
PVI=${PVI:-build/pvi}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
. test/tap.sh
GOLF="examples/golf/geometric.stan examples/golf/golf.csv"
"$PVI" fit $GOLF --out "$dir/golf" --quiet
"$PVI" fit $GOLF --score elbo --folds 5 --out "$dir/vi" --quiet

"$PVI" report "$dir/golf" --plots "$dir/plots" >"$dir/said" 2>&1 && grep -q "report: $dir/golf/report.html" "$dir/said"
check $? "a report is written, and its name told" "$(cat "$dir/said")"
page=$dir/golf/report.html
[ "$(grep -c '<svg ' "$page")" -ge 4 ] && [ "$(grep -c '<svg ' "$page")" = "$(grep -c 'role="img" aria-label="[^"]' "$page")" ]
check $? "every figure has a text alternative" "$(grep '<svg' "$page" | head -n 3)"
! grep -o '\(src\|href\|url\)[=(]"\?[a-z]*:[^" )]*' "$page" | grep -v 'href="data:,' >"$dir/outside"
check $? "nothing is loaded from elsewhere" "$(cat "$dir/outside")"
grep -q 'was chosen on folds: held-out gain over Bayes' "$page" && grep -q 'How this fit was chosen' "$page" && grep -q '<span class="obs">' "$page" && grep -q 'observation </span>' "$page" && grep -q 'pvi fit examples/golf/geometric.stan' "$page"
check $? "verdict, path, marked program and the command are there"
grep -q 'against x"' "$dir/plots/covariate.svg" && grep -q 'rate of the outcome' "$dir/plots/covariate.svg"
check $? "putts are shown as rates against the distance, not against how many there were"
python3 - "$page" "$dir"/plots/*.svg <<'P' >"$dir/said" 2>&1
import sys
from html.parser import HTMLParser
from xml.dom import minidom

VOID = {"meta", "link", "br"}
class Balanced(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open = []
    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)
    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, (tag, self.getpos())
b = Balanced()
b.feed(open(sys.argv[1]).read())
assert not b.open, b.open
assert len(sys.argv) >= 6, sys.argv
for name in sys.argv[2:]:
    minidom.parse(name)
P
check $? "the page is well formed, and so are the figures as files" "$(cat "$dir/said")"
"$PVI" report "$dir/vi" "$dir/golf" --page "$dir/both.html" >/dev/null && grep -q '<h1>Comparison</h1>' "$dir/both.html" && grep -q 'geometric, VI' "$dir/both.html"
check $? "several runs are compared first"
"$PVI" compare "$dir/vi" "$dir/golf" --page "$dir/compare.html" --plots "$dir/compared" >"$dir/said" && grep -q "report: $dir/compare.html" "$dir/said" && grep -q 'class="verdict"' "$dir/compare.html" && grep -q 'Where the best fit predicts better' "$dir/compare.html" && [ -s "$dir/compared/pointwise-1.svg" ] && [ -s "$dir/compared/difference-log.svg" ]
check $? "compare writes a page: verdict, differences, observation by observation" "$(cat "$dir/said")"
"$PVI" compare examples/golf/logistic.stan examples/golf/geometric.stan examples/golf/golf.csv --methods vi,pvi --lambda 0.1 --page "$dir/models.html" --stack >"$dir/said" && grep -q '<caption><span>CRPS, smaller is better; held out' "$dir/models.html" && grep -q 'Stacking' "$dir/models.html"
check $? "compare of programs writes a page, and says which way scores go" "$(cat "$dir/said")"
program=$(realpath "$PVI") golf=$(realpath examples/golf)
(cd "$dir" && "$program" diagnose "$golf/logistic.stan" "$golf/golf.csv" --simulations 39 --report) >"$dir/said" 2>&1
grep -q "report: logistic-diagnosis.html" "$dir/said" && grep -q 'What freeing gains' "$dir/logistic-diagnosis.html" && grep -q '<span class="gutter">new </span>' "$dir/logistic-diagnosis.html"
check $? "diagnose writes a page: verdict, widths, larger programs with their new lines marked" "$(cat "$dir/said")"
# What a fit gains by observation: outcomes whose spread grows with x, and z that has nothing to do with it.
awk 'BEGIN { srand(1); print "x,z,y"; for (k = 0; k < 400; k++) { x = 3 * rand(); g = -6; for (j = 0; j < 12; j++) g += rand(); printf "%.4f,%.4f,%.4f\n", x, rand(), 1 + x * x * g / 2 } }' >"$dir/spread.csv"
printf 'data { int N; vector[N] x; vector[N] z; vector[N] y; } parameters { real a; real b; real<lower=0> s; } model { a ~ normal(0, 5); b ~ normal(0, 5); s ~ normal(0, 5); y ~ normal(a + b * z, s); }' >"$dir/spread.stan"
"$PVI" fit "$dir/spread.stan" "$dir/spread.csv" --out "$dir/spread" --report --quiet && grep -q '_bayes_heldout' "$dir/spread/scores.csv" && grep -q 'PVI over Bayes: x goes with [1-9][0-9]*% of the differences' "$dir/spread/report.html"
check $? "a report finds the column behind what is gained by observation" "$(grep -o 'figcaption>PVI over[^<]*' "$dir/spread/report.html")"
grep -q 'against z, which the predictions follow most' "$dir/spread/report.html"
check $? "predictions are shown against a covariate that they are a straight line of" "$(grep -o '<figcaption>[^<]*' "$dir/spread/report.html")"
printf 'data { vector<lower=0>[4] y; } parameters { real<lower=0> a; } model { a ~ exponential(1); y ~ weibull(a, 1); }' >"$dir/times.stan"
echo '{"y": [1, 0.5, 2, 1.5]}' >"$dir/times.json"
"$PVI" fit "$dir/times.stan" "$dir/times.json" --lambda 1 --out "$dir/times" --report --quiet && grep -q 'note: means and quantiles are not available' "$dir/times/report.html"
check $? "a report says why predictions are missing"
cp examples/golf/geometric.stan "$dir/own.stan"
"$PVI" fit "$dir/own.stan" examples/golf/golf.csv --lambda 0.1 --out "$dir/own" --report --quiet && grep -q 'Where outcomes fall' "$dir/own/report.html"
check $? "a fit may write its report at once"
"$PVI" fit "$dir/own.stan" examples/golf/golf.csv --lambda 0.1 --out "$dir/own" --quiet && rm "$dir/own.stan" && "$PVI" report "$dir/own" >"$dir/said" 2>&1 && grep -q 'Predictive checks are left out' "$dir/own/report.html"
check $? "without its program a run still has a report" "$(cat "$dir/said")"
"$PVI" sample $GOLF --chains 4 --draws 200 --warmup 200 --out "$dir/draws" --quiet
"$PVI" report "$dir/draws" --plots "$dir/chains" >"$dir/said" 2>&1 && grep -q '<p class="verdict">' "$dir/draws/report.html" && grep -q 'Do the chains agree?' "$dir/draws/report.html" &&
  grep -q 'R-hat</th>' "$dir/draws/report.html" && grep -q 'leave-one-out log score' "$dir/draws/report.html" && grep -q 'pvi sample examples/golf/geometric.stan' "$dir/draws/report.html" &&
  [ -s "$dir/chains/ranks_1.svg" ] && [ -s "$dir/chains/chains_1.svg" ] && [ -s "$dir/chains/pareto_k.svg" ] && [ -s "$dir/chains/pit.svg" ]
check $? "draws of the posterior have a report: verdict, ranks, traces, Pareto k, predictive checks" "$(cat "$dir/said")"
"$PVI" report "$dir/draws" "$dir/golf" --page "$dir/three.html" >"$dir/said" 2>&1 && grep -q 'geometric, Bayes' "$dir/three.html"
check $? "and are compared with a fit" "$(cat "$dir/said")"
"$PVI" report "$dir/plots" 2>"$dir/said"
[ $? -eq 3 ]
check $? "what is no run is an error" "$(cat "$dir/said")"

# framed PAGE WIDTH: the page in a frame of that width, since no window is narrower than 500 pixels; what the page says becomes the title
framed() {
  printf '<!DOCTYPE html><meta name="color-scheme" content="light dark"><title>silent</title><script>onmessage = e => document.title = e.data</script><body style="margin: 0"><iframe src="file://%s" style="border: 0; width: %spx; height: 2000px"></iframe>' "$1" "$2" >"$dir/framed.html"
  echo "file://$dir/framed.html"
}

# opens PAGE NAME: light and dark, narrow and wide; the console stays empty, nothing is asked for outside, every figure has a size
opens() {
  local width scheme
  for width in 400 1280; do
    for scheme in 0 1; do # dark, light
      "$browser" --headless --no-sandbox --disable-gpu --enable-logging=stderr --user-data-dir="$dir/profile" --host-resolver-rules='MAP * ~NOTFOUND' \
        --blink-settings=preferredColorScheme=$scheme --window-size=$width,2000 --screenshot="$dir/$2-$width-$scheme.png" "$(framed "$1" $width)" >"$dir/said" 2>&1
      [ -s "$dir/$2-$width-$scheme.png" ] && ! grep -q 'CONSOLE\|ERR_NAME_NOT_RESOLVED' "$dir/said"
      check $? "chromium opens the report of $2, $width wide, scheme $scheme, and its console stays empty" "$(grep CONSOLE "$dir/said")"
    done
  done
  cmp -s "$dir/$2-1280-0.png" "$dir/$2-1280-1.png"
  [ $? -eq 1 ]
  check $? "dark and light differ: $2"
  # The figures, and everything else but what lies in a box that scrolls.
  sed 's|</body>|<script>const box = e => e.getBoundingClientRect(); parent.postMessage(innerWidth + " pixels: " + ([...document.querySelectorAll("svg.plot")].every(e => box(e).width > 200) \&\& [...document.querySelectorAll("body *")].every(e => e.parentElement.closest(".wide, pre, svg") \|\| box(e).right <= innerWidth + 0.5) ? "all fits" : "something does not fit"), "*")</script></body>|' "$1" >"$dir/measured.html"
  "$browser" --headless --no-sandbox --disable-gpu --virtual-time-budget=5000 --user-data-dir="$dir/profile" --window-size=800,2000 --dump-dom "$(framed "$dir/measured.html" 400)" 2>/dev/null >"$dir/said"
  grep -q '<title>400 pixels: all fits' "$dir/said"
  check $? "every figure has a size, and the page fits 400 pixels: $2" "$(grep -o '<title>[^<]*' "$dir/said")"
}

# of MODEL DATA NAME OPTIONS...: its report, opened
of() {
  local model=$1 data=$2 name=$3
  shift 3
  if [ ! -r "$data" ]; then
    echo "ok - the report of $name # SKIP $data is not there"
    return
  fi
  "$PVI" fit "examples/paper/$model.stan" "$data" --out "$dir/$name" --report --quiet "$@"
  opens "$dir/$name/report.html" "$name"
}

if browser=$(command -v chromium); then
  DATA=${PVI_SHARED:-../shared}/data/posteriordb
  opens "$page" golf
  opens "$dir/models.html" comparison
  opens "$dir/logistic-diagnosis.html" diagnosis
  of earnings $DATA/earnings.json earnings
  of election $DATA/election88.json election --family meanfield --lambda 0.1
  of radon $DATA/radon_mn.json radon
else
  echo "# skip: chromium is not installed, so no browser opens the page"
fi
exit $failed
