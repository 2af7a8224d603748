#!/usr/bin/env python3
"""heldout.py PVI POSTERIORDB DATA [NAME ...]: does a tuned fit predict better than Bayes? Outer five-fold cross-validation: the permutation
is random.Random(SEED).shuffle of 1..n (SEED 7, or HELDOUT_SEED), fold k every fifth from k. Every choice (lambda, what is free) is made inside the
training part. Prints, per posterior, the held-out log score of VI and the gain over it with its paired standard error, and sums at the end.
POSTERIORDB is a checkout of stan-dev/posteriordb (its models and posteriors), DATA the folder of its data sets as JSON.
HELDOUT_OPTIONS are the options of the tuned fit (default: --lambda auto --free auto)."""
import csv, json, math, os, random, subprocess, sys, tempfile, time


def rows(folder):
    with open(os.path.join(folder, "scores.csv")) as f:
        return {int(r["observation"]): float(r["log"]) for r in csv.DictReader(f) if r["part"] == "test"}


def fit(pvi, program, data, split, out, options):
    command = [pvi, "fit", program, data, "--split", split, "--out", out, "--force", "--quiet", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=1800).returncode in (0, 5)


def observations(pvi, program, data):
    said = subprocess.run([pvi, "check", program, data, "--json"], capture_output=True, text=True)
    return json.loads(said.stdout).get("n_obs", 0) if said.returncode == 0 else 0


def gains(pvi, program, data, options):
    n = observations(pvi, program, data)
    order = list(range(1, n + 1))
    random.Random(int(os.environ.get("HELDOUT_SEED", "7"))).shuffle(order)
    vi, tuned = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for k in range(5):
            test = sorted(order[k::5])
            split = os.path.join(folder, "split.json")
            with open(split, "w") as f:
                json.dump({"train": sorted(set(order) - set(test)), "test": test}, f)
            for scores, name, how in ((vi, "vi", ["--score", "elbo"]), (tuned, "tuned", options)):
                if not fit(pvi, program, data, split, os.path.join(folder, name), how):
                    raise RuntimeError(f"the {name} fit of fold {k + 1} failed")
                scores.update(rows(os.path.join(folder, name)))
    difference = [tuned[i] - vi[i] for i in vi]
    mean = sum(difference) / n
    se = math.sqrt(sum((d - mean) ** 2 for d in difference) / (n - 1) * n)
    return n, sum(vi.values()), sum(difference), se


def main():
    pvi, base, data = sys.argv[1:4]
    options = os.environ.get("HELDOUT_OPTIONS", "--lambda auto --free auto").split()
    posteriors = os.path.join(base, "posterior_database", "posteriors")
    names = sys.argv[4:] or sorted(f[:-5] for f in os.listdir(posteriors) if f.endswith(".json"))
    total, behind = 0.0, []
    print(f"{'posterior':60} {'n':>6} {'VI':>12} {'gain':>9} {'se':>7} {'s':>6}")
    for name in names:
        with open(os.path.join(posteriors, name + ".json")) as f:
            row = json.load(f)
        program = os.path.join(base, "posterior_database", "models", "stan", row["model_name"] + ".stan")
        file = os.path.join(data, row["data_name"] + ".json")
        start = time.time()
        try:
            n, score, gain, se = gains(pvi, program, file, options)
        except Exception as e:
            print(f"{name:60} {str(e)[:60]}", flush=True)
            continue
        total += min(gain, 300)
        if gain < -2 and gain < -2 * se:
            behind.append(name)
        print(f"{name:60} {n:6} {score:12.2f} {gain:9.2f} {se:7.2f} {time.time() - start:6.1f}", flush=True)
    print(f"sum of gains, each at most 300: {total:.1f}; behind VI by 2 nats and 2 standard errors: {', '.join(behind) or 'none'}")


if __name__ == "__main__":
    main()
