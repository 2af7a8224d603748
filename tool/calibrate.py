#!/usr/bin/env python3
"""calibrate.py PVI SETS [CASE...]: how often `pvi diagnose` flags what, on simulated data.

Every case simulates SETS data sets and diagnoses each; the table says how often anything was flagged,
and how often the variable that varies, and another one. Cases: normal, logistic, glmm (nothing varies);
slope (linear regression, sd 0.5 in one slope of five), logistic_slope (n = 2000, sd 1 in one), logistic_wide (sd 1.5), noise (t_3).
"""
import json
import math
import random
import subprocess
import sys
import tempfile

LINEAR = """data { int N; matrix[N, 5] X; vector[N] y; }
parameters { vector[5] b; real a; real<lower=0> sigma; }
model { a ~ normal(0, 5); b ~ normal(0, 5); sigma ~ normal(0, 5); y ~ normal(a + X * b, sigma); }"""
LOGISTIC = """data { int N; matrix[N, 5] X; array[N] int y; }
parameters { vector[5] b; real a; }
model { a ~ normal(0, 5); b ~ normal(0, 5); y ~ bernoulli_logit(a + X * b); }"""
NORMAL = """data { int N; vector[N] y; } parameters { real m; real<lower=0> sigma; }
model { m ~ normal(0, 5); sigma ~ normal(0, 5); y ~ normal(m, sigma); }"""
GLMM = """data { int N; int J; array[N] int g; vector[N] x; array[N] int y; }
parameters { real a; real b; real<lower=0> tau; vector[J] u; }
model { a ~ normal(0, 2); b ~ normal(0, 2); tau ~ normal(0, 1); u ~ normal(0, tau); y ~ poisson_log(a + b * x + u[g]); }"""


def poisson(r, rate):
    limit, k, p = math.exp(-rate), 0, r.random()
    while p > limit:
        k, p = k + 1, p * r.random()
    return k


def regression(r, n, spread=0.0, binary=False, noise=None):
    b = [r.gauss(0, 0.5) for _ in range(5)]
    x = [[r.gauss(0, 1) for _ in range(5)] for _ in range(n)]
    y = []
    for row in x:
        own = [b[0] + r.gauss(0, spread)] + b[1:]
        eta = sum(u * v for u, v in zip(own, row))
        y.append(int(r.random() < 1 / (1 + math.exp(-eta))) if binary else eta + (noise or (lambda: r.gauss(0, 1)))())
    return {"N": n, "X": x, "y": y}


def t3(r):
    return r.gauss(0, 1) / math.sqrt(sum(r.gauss(0, 1) ** 2 for _ in range(3)) / 3)


def glmm(r):
    n, groups = 400, 20
    u = [r.gauss(0, 0.5) for _ in range(groups)]
    g = [k % groups + 1 for k in range(n)]
    x = [r.gauss(0, 1) for _ in range(n)]
    y = [poisson(r, math.exp(0.5 + 0.3 * x[k] + u[g[k] - 1])) for k in range(n)]
    return {"N": n, "J": groups, "g": g, "x": x, "y": y}


# case: program, data, the variable that varies
CASES = {
    "normal": (NORMAL, lambda r: {"N": 200, "y": [r.gauss(1, 2) for _ in range(200)]}, None),
    "logistic": (LOGISTIC, lambda r: regression(r, 500, binary=True), None),
    "glmm": (GLMM, glmm, None),
    "slope": (LINEAR, lambda r: regression(r, 500, 0.5), "b[1]"),
    "logistic_slope": (LOGISTIC, lambda r: regression(r, 2000, 1.0, True), "b[1]"),
    "logistic_wide": (LOGISTIC, lambda r: regression(r, 2000, 1.5, True), "b[1]"),
    "noise": (LINEAR, lambda r: regression(r, 500, noise=lambda: t3(r)), "sigma"),
}


def diagnose(pvi, folder, program, data):
    for name, text in (("m.stan", program), ("d.json", json.dumps(data))):
        with open(f"{folder}/{name}", "w") as f:
            f.write(text)
    done = subprocess.run([pvi, "diagnose", f"{folder}/m.stan", f"{folder}/d.json", "--json"],
                          capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"diagnose failed: {done.stderr}")
    return [v["name"] for v in json.loads(done.stdout)["variables"] if v["varies"]]


def main():
    pvi, sets, names = sys.argv[1], int(sys.argv[2]), sys.argv[3:] or list(CASES)
    print(f"{'case':16}{'anything':>10}{'the one':>10}{'another':>10}   of {sets} data sets")
    for name in names:
        program, make, truth = CASES[name]
        anything = right = other = 0
        with tempfile.TemporaryDirectory() as folder:
            for k in range(sets):
                flagged = diagnose(pvi, folder, program, make(random.Random(1000 + k)))
                anything += bool(flagged)
                right += truth in flagged
                other += any(v != truth for v in flagged)
        print(f"{name:16}{anything / sets:10.0%}{right / sets:10.0%}{other / sets:10.0%}", flush=True)


if __name__ == "__main__":
    main()
