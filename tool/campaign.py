#!/usr/bin/env python3
"""campaign.py PVI POSTERIORDB DATA [options] [WORD ...]: fits the posteriors of posteriordb (those whose name contains a WORD) by mean-field
VI, by one log fit (lambda 0.01) and, where they are asked for, by full-rank VI and by the tuned default, one process and one thread at a time, small data first, and prints how each ended; the counts come last.

POSTERIORDB is a checkout of stan-dev/posteriordb (its models and posteriors), DATA the folder of its data sets as JSON.
  --fits vi,log      which of them; fullrank and tuned are the others
  --seconds 60       what one fit may take, in seconds of the processor; then it is interrupted
  --seeds 1          fits with the seeds 1 to N, or until one takes too long; objectives are to agree to 0.05 sqrt(n)
  --reference DIR    reference means and mean squares (posteriordb's summary_statistics): by how many posterior standard deviations
                     VI's means are off; more than 0.25 is listed. So are sds of full-rank VI that are off by more than 15%
A program that makes one joint observation, or none, has VI only: its log fit is not counted."""
import argparse, glob, json, math, os, shutil, signal, subprocess, sys, tempfile

KINDS = {"tuned": [], "vi": ["--score", "elbo", "--family", "meanfield"], "log": ["--lambda", "0.01"], "fullrank": ["--score", "elbo", "--family", "fullrank"]}


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("pvi", "posteriordb", "data"):
        p.add_argument(name)
    p.add_argument("words", nargs="*")
    p.add_argument("--fits", default="vi,log")
    p.add_argument("--seconds", type=float, default=60)
    p.add_argument("--seeds", type=int, default=1)
    p.add_argument("--reference")
    return p.parse_intermixed_args()


def posteriors(o):
    """(name, program, data), those with the smallest data first."""
    base = next(iter(glob.glob(os.path.join(o.posteriordb, "**", "posteriors"), recursive=True)), None)
    if base is None:
        sys.exit("skipped: there is no posteriordb in " + o.posteriordb)
    found = []
    for path in glob.glob(os.path.join(base, "*.json")):
        with open(path) as f:
            row = json.load(f)
        name = os.path.basename(path)[:-5]
        program = os.path.join(os.path.dirname(base), "models", "stan", row["model_name"] + ".stan")
        data = os.path.join(o.data, row["data_name"] + ".json")
        if (not o.words or any(w in name for w in o.words)) and os.path.exists(program) and os.path.exists(data):
            found.append((name, program, data))
    return sorted(found, key=lambda p: (os.path.getsize(p[2]), p[0]))


def processor_seconds(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def watched(p, seconds, first=None):
    """What the process said when it ended, or None once it has used so many seconds of the processor."""
    if first is not None:
        p.send_signal(first)
    wait = 0.01
    while True:
        if processor_seconds(p.pid) > seconds:
            return None
        try:
            return p.communicate(timeout=wait)[1]
        except subprocess.TimeoutExpired:
            wait = min(2 * wait, 0.5)


def fit(o, program, data, kind, seed, out):
    """(exit code, summary or None, seconds, first line of what it said)"""
    shutil.rmtree(out, ignore_errors=True)
    command = [o.pvi, "fit", program, data, *KINDS[kind], "--seed", str(seed), "--threads", "1", "--quiet", "--out", out]
    before = sum(os.times()[2:4])
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as p:
        said = watched(p, o.seconds)
        if said is None:
            said = watched(p, o.seconds + 60, signal.SIGINT)
        if said is None:
            p.kill()
            p.wait()
            said = "did not stop in time"
        code = p.returncode
    took, path = sum(os.times()[2:4]) - before, os.path.join(out, "summary.json")
    summary = None
    if os.path.exists(path):
        with open(path) as f:
            summary = json.load(f)
    return code, summary, took, said.strip().split("\n")[0]


def reference(o, name):
    """{parameter: (mean, sd)} of the posterior; None: nobody knows."""
    tables = []
    for what in ("mean_value", "mean_squared_value"):
        path = os.path.join(o.reference, what, what, name + ".json")
        if not os.path.exists(path):
            return None
        with open(path) as f:
            table = json.load(f)
        tables.append(dict(zip(table["names"], table[what])))
    moments = {p: (tables[0][p], math.sqrt(max(tables[1][p] - tables[0][p] ** 2, 0))) for p in tables[0].keys() & tables[1].keys()}
    return {p: m for p, m in moments.items() if m[1] > 0}


def furthest(known, summary, off):
    """The parameter of which off(its row, mean, sd) is most."""
    rows = {v["name"]: v for v in summary["parameters"]}
    return max([(off(rows[p], *known[p]), p) for p in known.keys() & rows.keys()], default=(0.0, "-"))


# fit: how far off a parameter is, in what, and how far is listed
OFF = {
    "vi": (lambda row, mean, sd: abs(row["mean"] - mean) / sd, "VI means within 0.25 posterior sd", 0.25),
    "fullrank": (lambda row, mean, sd: abs(row["sd"] / sd - 1), "full-rank sds within 15%", 0.15),
}


def only_vi(code, said):
    return code in (2, 4) and "observation" in said


def main():
    o, width = arguments(), 58
    kinds = o.fits.split(",")
    count = {k: [0, 0, 0] for k in kinds}  # fits, converged, over time
    disagree, off, compared = [], {k: [] for k in kinds}, {k: 0 for k in kinds}
    print(f"{'posterior':{width}} {'fit':8} {'seed':>4} {'exit':>4} {'objective':>16} {'seconds':>8}  reason")
    with tempfile.TemporaryDirectory() as folder:
        for name, program, data in posteriors(o):
            for kind in kinds:
                values, n = [], 1
                for seed in range(1, o.seeds + 1):
                    code, s, took, said = fit(o, program, data, kind, seed, os.path.join(folder, "run"))
                    reason, value = (s["reason"], s["objective"]) if s else (said, None)
                    value = math.nan if value is None else float(value)
                    if kind in ("log", "tuned") and only_vi(code, said):
                        print(f"{name:{width}} {kind:8} {seed:4} {code:4} {'-':>16} {took:8.1f}  VI only: {said}", flush=True)
                        break
                    print(f"{name:{width}} {kind:8} {seed:4} {code:4} {value:16.9g} {took:8.1f}  {reason}", flush=True)
                    over = bool(s and s.get("interrupted")) or reason.startswith("interrupted") or code < 0
                    count[kind] = [count[kind][0] + 1, count[kind][1] + (code == 0), count[kind][2] + over]
                    if s:
                        n = max(s.get("n_obs", 1), 1)
                        values.append(value)
                    known = reference(o, name) if kind in OFF and seed == 1 and o.reference and s and code == 0 else None
                    if known:
                        worst = furthest(known, s, OFF[kind][0])
                        compared[kind] += 1
                        if worst[0] > OFF[kind][2]:
                            off[kind].append(f"{name}: {worst[1]} by {worst[0]:.2f}; k hat {s.get('khat', math.nan):.2f}")
                    if over:
                        break
                if len(values) > 1 and max(values) - min(values) > 0.05 * math.sqrt(n):
                    disagree.append(f"{name} {kind}: by {max(values) - min(values):.3g}")
    print()
    for kind in kinds:
        fits, ok, over = count[kind]
        print(f"{kind}: {ok} of {fits} converged, {over} took more than {o.seconds:g} s")
    for line in disagree:
        print("seeds disagree:", line)
    for kind in kinds:
        if o.reference and kind in OFF:
            print(f"{OFF[kind][1]} in {compared[kind] - len(off[kind])} of {compared[kind]} with a reference")
        for line in off[kind]:
            print("further:", line)


if __name__ == "__main__":
    main()
