#!/usr/bin/env python3
"""reference.py PVI POSTERIORDB DATA REFERENCE [options] [WORD ...]: samples the posteriors of posteriordb that have a reference (those whose
name contains a WORD) and compares means and means of squares with it, in combined Monte Carlo standard errors (MCSE): the reference's, and
ours from the means of the chains. Prints a row for every posterior, and how many quantities are within 4 at the end.

POSTERIORDB is a checkout of stan-dev/posteriordb (its models and posteriors), DATA the folder of its data sets as JSON, REFERENCE
posteriordb's summary_statistics.
  --seconds 120      what one posterior may take; then it is interrupted
  --options WORDS    further options of `pvi sample`, in one word"""
import argparse, json, math, os, shutil, signal, subprocess, sys, tempfile, time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from campaign import posteriors


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("pvi", "posteriordb", "data", "reference"):
        p.add_argument(name)
    p.add_argument("words", nargs="*")
    p.add_argument("--seconds", type=float, default=120)
    p.add_argument("--options", default="")
    return p.parse_intermixed_args()


def reference(o, name):
    """{quantity: (mean, mcse, mean of squares, mcse)}, or None"""
    tables = []
    for what, error in (("mean_value", "mcse_mean"), ("mean_squared_value", "mcse_mean_squared")):
        path = os.path.join(o.reference, what, what, name + ".json")
        if not os.path.exists(path):
            return None
        with open(path) as f:
            t = json.load(f)
        errors = t.get(error) or next(v for k, v in t.items() if k.startswith("mcse"))
        tables.append({n: (x, e) for n, x, e in zip(t["names"], t[what], errors)})
    return {n: (*tables[0][n], *tables[1][n]) for n in tables[0] if n in tables[1]}


def sample(o, program, data, out):
    shutil.rmtree(out, ignore_errors=True)
    command = [o.pvi, "sample", program, data, "--quiet", "--out", out, *o.options.split()]
    begun = time.time()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as p:
        try:
            said = p.communicate(timeout=o.seconds)[1]
        except subprocess.TimeoutExpired:
            p.send_signal(signal.SIGINT)
            said = p.communicate()[1]
        return p.returncode, time.time() - begun, said.strip().split("\n")[-1]


def pretty(dotted):
    """theta.2.1 as people write it"""
    name, *index = dotted.split(".")
    return name + ("[" + ",".join(index) + "]" if index else "")


def read_draws(out):
    """(names, chains): every chain a list of rows"""
    names, chains, k = None, [], 1
    while os.path.exists(path := os.path.join(out, f"draws_{k}.csv")):
        rows, each = [], 1
        with open(path) as f:
            for line in f:
                if line.startswith("#"):
                    if "pvi_chains" in line:
                        each = int(line.split("=")[1].split()[0])
                elif line.startswith("lp__"):
                    names = line.strip().split(",")
                else:
                    rows.append([float(x) for x in line.split(",")])
        n = len(rows) // each
        chains += [rows[i * n:(i + 1) * n] for i in range(each)]
        k += 1
    return [pretty(n) for n in names], chains


def mean_and_error(chains, column, square):
    """The mean of a column, or of its square, and its standard error from the means of the chains."""
    means = []
    for rows in chains:
        s = 0.0
        for row in rows:
            s += row[column] ** 2 if square else row[column]
        means.append(s / len(rows))
    m = sum(means) / len(means)
    return m, math.sqrt(sum((x - m) ** 2 for x in means) / (len(means) - 1) / len(means))


def compare(names, chains, ref):
    """[(distance in combined MCSE, quantity)] of means and of means of squares"""
    found = []
    for k, name in enumerate(names):
        if name not in ref:
            continue
        m, e, m2, e2 = ref[name]
        for square, value, error in ((False, m, e), (True, m2, e2)):
            ours, own = mean_and_error(chains, k, square)
            both = math.sqrt(own ** 2 + error ** 2)
            if both > 0:
                found.append((abs(ours - value) / both, name + ("^2" if square else "")))
    return found


def main():
    o, width = arguments(), 58
    total = within = good = count = 0
    print(f"{'posterior':{width}} {'exit':>4} {'seconds':>8} {'quantities':>10} {'over 4':>6} {'worst':>7} {'R-hat':>7} {'ESS':>7} {'ESS/s':>9} {'diverged':>8}")
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "run")
        for name, program, data in posteriors(o):
            ref = reference(o, name)
            if ref is None:
                continue
            code, took, said = sample(o, program, data, out)
            count += 1
            path = os.path.join(out, "summary.json")
            if not os.path.exists(path):
                print(f"{name:{width}} {code:4} {took:8.2f} {said}", flush=True)
                continue
            with open(path) as f:
                d = json.load(f)["diagnostics"]
            far = compare(*read_draws(out), ref)
            over = sum(x > 4 for x, _ in far)
            worst = max(far, default=(0.0, "-"))
            total, within = total + len(far), within + len(far) - over
            rhat, ess = float(d["rhat"]), float(d["ess_bulk"])
            good += rhat < 1.01
            print(f"{name:{width}} {code:4} {took:8.2f} {len(far):10} {over:6} {worst[0]:7.2f} {rhat:7.4f} {ess:7.0f} {ess / took:9.1f} {d['divergences']:8}"
                  + (f"  {worst[1]}" if over else ""), flush=True)
    share = 100 * within / total if total else 0
    print(f"\n{within} of {total} quantities ({share:.2f}%) are within 4 combined MCSE; R-hat is below 1.01 in {good} of {count} posteriors")


if __name__ == "__main__":
    main()
