#!/usr/bin/env python3
"""sbc.py PVI [options] [WORD ...]: simulation-based calibration (Talts et al. 2018) of `pvi sample`. For each of five programs (those whose name
contains a WORD; two of them are centred hierarchies, which warm-up makes non-centred) parameters are drawn from the prior and data from them; the rank of every true value among the posterior's draws must be
uniform. Prints chi-square and its p value for every parameter; ends with 1 where one p is below 0.001.

  --sets 200         data sets of each program
  --options WORDS    further options of `pvi sample`, in one word"""
import argparse, json, math, os, random, subprocess, sys, tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from reference import read_draws

BINS, RANKS = 10, 99  # ranks 0 .. 99 in bins of ten


def eight_schools(r):
    sigma = [15, 10, 16, 11, 9, 11, 10, 18]
    mu, tau = r.gauss(0, 5), abs(5 * math.tan(math.pi * (r.random() - 0.5)))
    z = [r.gauss(0, 1) for _ in sigma]
    y = [r.gauss(mu + tau * a, s) for a, s in zip(z, sigma)]
    return {"mu": mu, "tau": tau, **{f"z[{k + 1}]": a for k, a in enumerate(z)}}, {"J": 8, "y": y, "sigma": sigma}


def eight_schools_centred(r):
    truth, data = eight_schools(r)
    theta = {f"theta[{k + 1}]": truth["mu"] + truth["tau"] * truth[f"z[{k + 1}]"] for k in range(8)}
    return {"mu": truth["mu"], "tau": truth["tau"], **theta}, data


def logistic(r):
    beta = [r.gauss(0, 1) for _ in range(3)]
    X = [[1.0, r.gauss(0, 1), r.gauss(0, 1)] for _ in range(60)]
    y = [int(r.random() < 1 / (1 + math.exp(-sum(b * x for b, x in zip(beta, row))))) for row in X]
    return {f"beta[{k + 1}]": b for k, b in enumerate(beta)}, {"N": 60, "K": 3, "X": X, "y": y}


def poisson_draw(r, mean):
    """One at a time, in pieces that exp can take."""
    count = 0
    while mean > 30:
        mean, count = mean - 30, count + poisson_draw(r, 30)
    limit, p = math.exp(-mean), r.random()
    while p > limit:
        p, count = p * r.random(), count + 1
    return count


def poisson_glmm(r):
    a, b, s = r.gauss(0, 1), r.gauss(0, 0.5), abs(r.gauss(0, 0.7))
    u = [r.gauss(0, s) for _ in range(12)]
    g = [k % 12 + 1 for k in range(72)]
    x = [r.gauss(0, 1) for _ in g]
    y = [poisson_draw(r, math.exp(a + b * xi + u[k - 1])) for xi, k in zip(x, g)]
    return {"a": a, "b": b, "s": s, "u[1]": u[0], "u[12]": u[11]}, {"N": 72, "J": 12, "y": y, "g": g, "x": x}


PROGRAMS = {
    "eight_schools_noncentred": (eight_schools, """
data { int J; vector[J] y; vector[J] sigma; }
parameters { real mu; real<lower=0> tau; vector[J] z; }
model { mu ~ normal(0, 5); tau ~ cauchy(0, 5); z ~ normal(0, 1); y ~ normal(mu + tau * z, sigma); }"""),
    "eight_schools_centred": (eight_schools_centred, """
data { int J; vector[J] y; vector[J] sigma; }
parameters { real mu; real<lower=0> tau; vector[J] theta; }
model { mu ~ normal(0, 5); tau ~ cauchy(0, 5); theta ~ normal(mu, tau); y ~ normal(theta, sigma); }"""),
    "logistic_regression": (logistic, """
data { int N; int K; matrix[N, K] X; array[N] int y; }
parameters { vector[K] beta; }
model { beta ~ normal(0, 1); y ~ bernoulli_logit(X * beta); }"""),
    "poisson_glmm": (poisson_glmm, """
data { int N; int J; array[N] int y; array[N] int g; vector[N] x; }
parameters { real a; real b; real<lower=0> s; vector<multiplier=s>[J] u; }
model { a ~ normal(0, 1); b ~ normal(0, 0.5); s ~ normal(0, 0.7); u ~ normal(0, s); y ~ poisson_log(a + b * x + u[g]); }"""),
    "poisson_centred": (poisson_glmm, """
data { int N; int J; array[N] int y; array[N] int g; vector[N] x; }
parameters { real a; real b; real<lower=0> s; vector[J] u; }
model { a ~ normal(0, 1); b ~ normal(0, 0.5); s ~ normal(0, 0.7); u ~ normal(0, s); y ~ poisson_log(a + b * x + u[g]); }"""),
}


def upper_gamma(a, x):
    """The regularized upper incomplete gamma function: a series below a + 1, a continued fraction above."""
    front = math.exp(-x + a * math.log(x) - math.lgamma(a)) if x > 0 else 0.0
    if x < a + 1:
        term = total = 1 / a
        k = a
        while abs(term) > 1e-15 * total:
            k += 1
            term *= x / k
            total += term
        return 1 - front * total
    b, c, d = x + 1 - a, 1e300, 1 / (x + 1 - a)
    h = d
    for i in range(1, 1000):
        an, b = -i * (i - a), b + 2
        d = 1 / (an * d + b)
        c = b + an / c
        h *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return front * h


def ranks(pvi, folder, program, truth, data, seed, options):
    """{parameter: how many of RANKS spread draws are below its true value}"""
    path, out = os.path.join(folder, "data.json"), os.path.join(folder, "run")
    with open(path, "w") as f:
        json.dump(data, f)
    subprocess.run([pvi, "sample", program, path, "--quiet", "--force", "--out", out, "--seed", str(seed), *options], stderr=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL, check=False)
    names, chains = read_draws(out)
    rows = [row for chain in chains for row in chain]
    spread = [rows[k * len(rows) // RANKS] for k in range(RANKS)]
    return {p: sum(row[names.index(p)] < value for row in spread) for p, value in truth.items()}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("pvi")
    p.add_argument("words", nargs="*")
    p.add_argument("--sets", type=int, default=200)
    p.add_argument("--options", default="")
    o, failed = p.parse_intermixed_args(), False
    print(f"{'program':28} {'parameter':10} {'chi-square':>10} {'p':>8}")
    for name, (simulate, text) in PROGRAMS.items():
        if o.words and not any(w in name for w in o.words):
            continue
        bins = {}
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "program.stan")
            with open(program, "w") as f:
                f.write(text)
            for k in range(o.sets):
                truth, data = simulate(random.Random(1000 + k))
                for parameter, rank in ranks(o.pvi, folder, program, truth, data, k + 1, o.options.split()).items():
                    bins.setdefault(parameter, [0] * BINS)[rank * BINS // (RANKS + 1)] += 1
        for parameter, counts in bins.items():
            expected = o.sets / BINS
            chi = sum((n - expected) ** 2 / expected for n in counts)
            value = upper_gamma((BINS - 1) / 2, chi / 2)
            failed |= value < 0.001
            print(f"{name:28} {parameter:10} {chi:10.2f} {value:8.4f}{'  not uniform' if value < 0.001 else ''}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
