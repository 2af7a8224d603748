"""python_package.py: laws of the Python package. Called by test_python.sh with PVI and OUT; speaks TAP."""
import csv
import json
import math
import os
import subprocess
import sys
import traceback
import warnings

import numpy as np

import pvi

OUT, PVI = os.environ["OUT"], os.environ["PVI"]
GOLF = ["examples/golf/logistic.stan", "examples/golf/golf.csv"]
warnings.simplefilter("ignore")
failed = 0


def test(f):
    global failed
    try:
        f()
        print("ok - " + f.__doc__)
    except Exception:
        failed = 1
        print("not ok - " + f.__doc__)
        print("# " + traceback.format_exc().replace("\n", "\n# "))
    sys.stdout.flush()


def rows_of(path):
    lines = [x for x in open(path) if not x.startswith("#")]
    return list(csv.reader(lines))


def raised(kind, f, *args, **more):
    try:
        f(*args, **more)
    except kind as e:
        return e
    raise AssertionError("no %s" % kind.__name__)


@test
def draws_of_all():
    """draws of sample, npe and nre are those of the command line, to the bit, and so are predictions"""
    program, data = OUT + "/small.stan", OUT + "/small.json"
    open(program, "w").write("data { int N; vector[N] y; } parameters { real a; } model { a ~ normal(0, 1); y ~ normal(a, 1); }")
    json.dump({"N": 3, "y": [1, 0.5, 2]}, open(data, "w"))
    m = pvi.Model(program, data)
    for command, method in (("npe", m.npe), ("nre", m.nre)):
        subprocess.run([PVI, command, program, data, "--seed", "5", "--pairs", "512", "--epochs", "3", "--quiet", "--out", OUT + "/" + command])
        rows = np.array(rows_of(OUT + "/%s/draws.csv" % command)[2:], dtype=float)
        assert np.array_equal(rows[:, 3], method(seed=5, pairs=512, epochs=3).draws(len(rows))["a"]), command
    options = {"seed": 5, "chains": 2, "draws": 50, "warmup": 50, "method": "nuts"}
    words = [w for k, v in options.items() for w in ("--" + k, str(v))]
    subprocess.run([PVI, "sample", program, data, "--quiet", "--out", OUT + "/chains"] + words)
    post = m.sample(out=OUT + "/chains2", **options)
    for k in range(2):
        rows = rows_of(OUT + "/chains/draws_%d.csv" % (k + 1))
        assert np.array_equal(np.array(rows[1:], dtype=float)[:, rows[0].index("a")], post.draws["a"][k])
    for folder, own in ((OUT + "/npe", pvi.read(OUT + "/npe").predict()), (OUT + "/chains", post.predict())):
        said = json.loads(subprocess.run([PVI, "predict", folder, "--json"], capture_output=True, text=True, check=True).stdout)
        assert np.allclose([o["mean"] for o in said["observations"]], own.mean, rtol=1e-9, atol=0)


@test
def refused_options():
    """an option that a method does not have is refused, with the nearest one"""
    m = pvi.Model(*GOLF)
    fit = m.fit(score="elbo")
    for words, f, options in (("chains is not an option of fit, but of sample", m.fit, {"chains": 4}), ('did you mean "chains"', m.sample, {"chain": 4}), ("here it is threads", m.sample, {"parallel_chains": 4}),
                              ("score is not an option of check", lambda **o: pvi.Model(*GOLF, **o), {"score": "crps"}),
                              ('did you mean "levels"', fit.predict, {"level": [0.5]}), ('did you mean "simulations"', m.diagnose, {"simulation": 3}),
                              ('did you mean "methods"', lambda **o: pvi.compare(GOLF, **o), {"method": "vi"}), ('did you mean "bags"', m.bag, {"bag": 3}),
                              ('did you mean "pairs"', m.npe, {"pair": 3}), ('did you mean "page"', lambda **o: pvi.report([], **o), {"pages": "x"})):
        assert words in str(raised(pvi.UsageError, f, **options)), words


@test
def tuples():
    """items of tuples are variables; a draw without generated quantities is a warning"""
    m = pvi.Model("data { tuple(real, array[2] int) x; } parameters { real a; } model { a ~ normal(0, 1); } generated quantities "
                  "{ tuple(real, vector[2]) t = (x.1, [a, 2 * a]'); array[2] tuple(int, real) u = {(1, a), (2, x.2[2])}; vector[2] v = [1, 2]'; real w = v[a > 0 ? 1 : 3]; }",
                  {"x": (0.5, [3, 4])})
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        d = m.fit(score="elbo", seed=2).draws(100)
    assert d["t:2"].shape == (100, 2) and (d["t:1"][d["a"] > 0] == 0.5).all()
    good = d["a"] > 0
    assert np.array_equal(d["t:2"][good][:, 1], 2 * d["a"][good]) and (d["u.2:2"][good] == 4).all() and np.isnan(d["w"][~good]).all() and (d["w"][good] == 1).all()
    assert any("no generated quantities" in str(w.message) for w in said)


@test
def reports():
    """a report is an HTML page, and the bagged posterior a dict"""
    m = pvi.Model(*GOLF)
    fit = m.fit(score="elbo", out=OUT + "/reported")
    assert OUT in pvi.report(fit, page=OUT + "/page.html") and "<html" in open(OUT + "/page.html").read(3000)
    assert m.bag(bags=5)


@test
def draws():
    """draws of a fit are those of the command line, to the bit"""
    subprocess.run([PVI, "fit"] + GOLF + ["--lambda", "0.01", "--seed", "5", "--quiet", "--out", OUT + "/a"], check=True)
    rows = rows_of(OUT + "/a/draws.csv")
    fit = pvi.Model(*GOLF).fit(lambda_=0.01, seed=5)
    d = fit.draws()
    assert rows[0][3:] == d.columns
    assert np.array_equal(np.array(rows[2:], dtype=float)[:, 3:], d.matrix)
    assert np.array_equal(np.array(rows[2:], dtype=float)[:, 1], d.log_p) and np.array_equal(np.array(rows[2:], dtype=float)[:, 2], d.log_q)
    again = pvi.read(OUT + "/a")
    assert again.seed == 5 and np.array_equal(again.draws().matrix, d.matrix) and np.allclose(again.mean, fit.mean, rtol=0, atol=0)


@test
def posterior():
    """draws of the posterior are those of the command line, to the bit"""
    subprocess.run([PVI, "sample"] + GOLF + ["--chains", "4", "--draws", "300", "--seed", "2", "--quiet", "--out", OUT + "/s"], check=False)
    p = pvi.Model(*GOLF).sample(chains=4, draws=300, seed=2)
    assert p.draws["theta0"].shape == (4, 300)
    for k in range(4):
        x = np.array(rows_of(OUT + "/s/draws_%d.csv" % (k + 1))[1:], dtype=float)
        assert np.array_equal(x[:, 7:], p.draws.matrix[k]) and np.array_equal(x[:, 0], p.draws.lp[k])
    assert set(p.rhat) == {"theta0", "theta1"} and "theta0" in str(p) and "<table>" in p._repr_html_()


@test
def shapes():
    """variables have their shapes, the first index of columns being the fastest"""
    program = """data { int N; vector[N] y; } parameters { matrix[2, 3] A; real<lower=0> s; array[2] vector[2] v; }
    model { to_vector(A) ~ normal(0, 1); s ~ exponential(1); v[1] ~ normal(0, 1); v[2] ~ normal(0, 1); y ~ normal(A[1, 2], s); }"""
    m = pvi.Model(program, {"N": 3, "y": np.array([1.0, 2.0, 3.0])})
    d = m.fit(score="elbo").draws(20)
    assert d["A"].shape == (20, 2, 3) and d["s"].shape == (20,) and d["v"].shape == (20, 2, 2)
    for i in range(2):
        for j in range(3):
            assert np.array_equal(d["A"][:, i, j], d.matrix[:, d.columns.index("A.%d.%d" % (i + 1, j + 1))])
        for j in range(2):
            assert np.array_equal(d["v"][:, i, j], d.matrix[:, d.columns.index("v.%d.%d" % (i + 1, j + 1))])
    assert np.allclose(m.constrain(d.theta)[:, : len(m.columns)], d.matrix)
    assert np.allclose(m.unconstrain(d.matrix[0]), d.theta[0])


@test
def density():
    """densities have their closed form, and gradients are differences"""
    m = pvi.Model("data { int N; vector[N] y; } parameters { real mu; real<lower=0> s; } model { mu ~ normal(0, 2); y ~ normal(mu, s); }",
                  {"N": 2, "y": [1, 2.5]})
    mu, logs = 0.3, 0.2
    s = math.exp(logs)
    f = m.log_density([mu, logs], gradient=True, pointwise=True)
    normal = lambda x, a, b: -0.5 * ((x - a) / b) ** 2 - math.log(b) - 0.5 * math.log(2 * math.pi)
    assert np.allclose(f["pointwise"][0], [normal(1, mu, s), normal(2.5, mu, s)], rtol=1e-12)
    assert np.allclose(f["lp"], normal(mu, 0, 2) + normal(1, mu, s) + normal(2.5, mu, s) + logs, rtol=1e-12)
    h = 1e-5
    for k in range(2):
        e = np.eye(2)[k] * h
        up, down = m.log_density(np.array([mu, logs]) + e)["lp"][0], m.log_density(np.array([mu, logs]) - e)["lp"][0]
        assert abs((up - down) / (2 * h) - f["gradient"][0, k]) < 1e-6


@test
def laws_of_q():
    """log q is that of draws, the covariance that of a normal q"""
    fit = pvi.Model(*GOLF).fit(score="elbo")
    d = fit.draws(4000)
    assert np.allclose(fit.log_q(d.theta[:5]), d.log_q[:5])
    assert np.allclose(np.sqrt(np.diag(fit.covariance)), fit.sd)
    x = d.theta[0] - fit.mean
    want = -0.5 * x @ np.linalg.solve(fit.covariance, x) - 0.5 * np.linalg.slogdet(2 * math.pi * fit.covariance)[1]
    assert abs(want - d.log_q[0]) < 1e-8


@test
def splits():
    """parts are scored as they are given, counted from 0"""
    m = pvi.Model(*GOLF)
    fit = m.fit(lambda_=0.1, split={"test": [0, 5]})
    s = fit.score_of("test", "log")
    assert list(s.observations) == [0, 5] and len(s.rows) == 2 and abs(s.rows.sum() - s.sum) < 1e-9
    assert fit.score_of("train", "log").n == 17
    raised(KeyError, fit.score_of, "valid", "log")
    raised(pvi.UsageError, m.fit, split={"tests": [0]})
    raised(pvi.DataError, m.fit, split={"test": [99]})


@test
def predictions():
    """predictions of the data of the fit have its scores; of new data, too"""
    m = pvi.Model(*GOLF)
    fit = m.fit(lambda_=0.01, seed=1)
    p = fit.predict(levels=[0.1, 0.9], outcomes=7)
    assert len(p) == 19 and p.quantiles.shape == (19, 2) and p.outcomes.shape == (19, 7) and list(p.levels) == [0.1, 0.9]
    assert np.allclose(p.scores["log"], fit.score_of("train", "log").rows, rtol=1e-10)
    assert np.all(p.quantiles[:, 0] <= p.quantiles[:, 1]) and "<table>" in p._repr_html_()
    rows = list(csv.DictReader(open(GOLF[1])))
    new = {k: np.array([int(r[k]) for r in rows[:4]]) for k in rows[0]}
    q = fit.predict(dict(new, N=4))
    assert len(q) == 4 and np.allclose(q.mean, p.mean[:4]) and np.allclose(q.scores["log"], p.scores["log"][:4])


@test
def compares():
    """fits are compared in their folders, a diagnosis names the variables"""
    m = pvi.Model(*GOLF)
    a, b = m.fit(lambda_=0.01, out=OUT + "/x"), m.fit(score="elbo", out=OUT + "/y")
    c = pvi.compare([a, OUT + "/y"])
    said = json.loads(subprocess.run([PVI, "compare", OUT + "/x", OUT + "/y", "--json"], stdout=subprocess.PIPE, check=True).stdout)
    assert c["comparison"] == said["comparison"] and c.rows[0][0] == "log" and "<table>" in c._repr_html_()
    raised(pvi.UsageError, pvi.compare, [m.fit(lambda_=0.1), a])
    assert os.path.exists(a.export() + "/posterior/theta0/.zarray") and os.path.exists(b.export("netcdf", OUT + "/nc") + "/posterior.nc")
    d = m.diagnose(simulations=0)
    assert {v["name"] for v in d["variables"]} == {"theta0", "theta1"} and d.verdict


@test
def errors():
    """what is wrong is an exception with the message and its place"""
    e = raised(pvi.ProgramError, pvi.Model, "parameters { real x }")
    assert e.messages[0].line == 1 and e.messages[0].column == 21 and "expected `;`" in str(e)
    e = raised(pvi.DataError, pvi.Model, GOLF[0], {"J": 3})
    assert isinstance(e, ValueError) and "pvi: error" not in str(e)
    m = pvi.Model(*GOLF)
    assert "did you mean" in str(raised(pvi.UsageError, m.fit, scor="log"))
    assert "choices are" in str(raised(pvi.UsageError, m.fit, score="nothing"))
    raised(pvi.PviError, pvi.Model, OUT + "/none.stan")
    raised(pvi.DataError, pvi.read, OUT + "/none")
    raised(pvi.UsageError, m.log_density, [1, 2, 3])
    raised(pvi.DataError, pvi.Model, "data { int N; } parameters { real x; } model { x ~ normal(0, 1); }", {"N": np.array(["a"])})


@test
def strangers():
    """slips are answered with what to do; tables bring their own sizes, and data that were no file have no file's name in messages"""
    m = pvi.Model(*GOLF)
    assert "of sample" in str(raised(pvi.UsageError, m.fit, chains=4))
    assert "comes first" in str(raised(pvi.UsageError, pvi.Model, GOLF[1], GOLF[0]))
    said = str(raised(pvi.DataError, pvi.Model, GOLF[0], {"x": [1, 2]}))
    assert "tmp" not in said and "pvi-data" not in said, said
    html = m.fit(lambda_=0.1)._repr_html_()
    assert "CRPS, smaller is better" in html and "log score, larger is better" in html
    try:
        import pandas
    except ImportError:
        return
    table = pandas.read_csv(GOLF[1])
    a, b = m.fit(lambda_=0.1, seed=1), pvi.Model(GOLF[0], table).fit(lambda_=0.1, seed=1)
    assert a.objective == b.objective and (a.mean == b.mean).all()
    table["note"] = "a word that the program does not read"
    pvi.Model(GOLF[0], table)
    table["x"] = table["x"].map(str) + " feet"
    assert "data:2:" in str(raised(pvi.DataError, pvi.Model, GOLF[0], table))
    factor = pandas.DataFrame({"g": pandas.Categorical(["b", "a", "b"]), "y": [1.0, 2.0, 3.0]})
    program = "data { int N; array[N] int<lower=1, upper=2> g; vector[N] y; } parameters { vector[2] a; } model { a ~ normal(0, 1); y ~ normal(a[g], 1); }"
    assert abs(pvi.Model(program, factor).fit(score="elbo").mean - np.array([2 / 2, 4 / 3])).max() < 1e-6


@test
def warns():
    """a fit that did not converge is a result with a warning"""
    with warnings.catch_warnings(record=True) as w:
        warnings.simplefilter("always")
        fit = pvi.Model(*GOLF).fit(lambda_=0.01, iterations=1, family="flow", draws=16)
        assert not fit.converged and any(issubclass(x.category, pvi.NotConverged) for x in w)


@test
def shows():
    """fits and models show themselves"""
    m = pvi.Model(*GOLF)
    fit = m.fit(lambda_=0.01)
    assert "2 parameters, 19 observations" in repr(m) and "<table>" in fit._repr_html_() and "theta0" in fit.report() and str(fit) == fit.report() and fit.verdict
    assert fit.summary()["dim"] == 2 and "observations" in m.check() and "chains" in pvi.options("sample")
    assert pvi.__version__ in subprocess.run([PVI, "--version"], stdout=subprocess.PIPE, text=True).stdout


@test
def documented():
    """everything public is documented"""
    for name in pvi.__all__:
        x = getattr(pvi, name)
        assert x.__doc__, name
        for k, v in vars(x).items() if isinstance(x, type) else ():
            if not k.startswith("_") and callable(v) and k not in ("to_xarray", "to_arviz"):
                assert v.__doc__, (name, k)


@test
def trees():
    """draws become an xarray, where that is installed"""
    try:
        import xarray  # noqa: F401
    except ImportError:
        print("# skip: no xarray")
        return
    m = pvi.Model(*GOLF)
    x = m.sample(chains=3, draws=50).to_xarray()
    assert dict(x.sizes) == {"chain": 3, "draw": 50} and set(x.data_vars) == {"theta0", "theta1"}
    assert m.fit(score="elbo").to_xarray(30).sizes["draw"] == 30


@test
def threads():
    """fits in several threads do not disturb each other"""
    import threading

    m = pvi.Model(*GOLF)
    want = m.fit(lambda_=0.01).mean
    found = []
    workers = [threading.Thread(target=lambda: found.append(m.fit(lambda_=0.01, progress=False).mean)) for _ in range(4)]
    for t in workers:
        t.start()
    for t in workers:
        t.join()
    assert len(found) == 4 and all(np.array_equal(x, want) for x in found)


sys.exit(failed)
