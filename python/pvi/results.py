"""What runs find: draws as arrays by variable, fits, posteriors, predictions, comparisons, diagnoses."""
import ctypes as C
import html
import json
import math
import re

import numpy as np

from . import _library as L
from ._library import lib


def number_words(o):
    """JSON has no numbers for these."""
    words = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
    return {k: words.get(v, v) if isinstance(v, str) else v for k, v in o.items()}


def _table(headers, rows):
    """An HTML table of words and numbers."""
    cell = lambda x: "<td>%s</td>" % html.escape(x if isinstance(x, str) else "%.4g" % x)
    return "<table><thead><tr>%s</tr></thead><tbody>%s</tbody></table>" % (
        "".join("<th>%s</th>" % html.escape(h) for h in headers), "".join("<tr>%s</tr>" % "".join(map(cell, r)) for r in rows))


class Draws(dict):
    """Draws of every variable of the program: name -> array [draws x ...], or [chains x draws x ...] of a posterior.

    `columns` and `values` are the same as a matrix with dotted names; `theta` are the unconstrained parameters; `lp` (and `log_q`) go with each
    draw. It is a dict: ``draws["beta"].mean(axis=0)``.
    """

    def __init__(self, columns, values, theta, **more):
        self.columns, self.values_, self.theta, self.more = columns, values, theta, more
        super().__init__(_by_variable(columns, values))

    @property
    def matrix(self):
        """All columns as one array, columns last."""
        return self.values_

    def __getattr__(self, name):
        if name in self.__dict__.get("more", {}):
            return self.more[name]
        raise AttributeError(name)

    def to_xarray(self):
        """An xarray.Dataset with dimensions chain and draw."""
        import xarray

        variables = {}
        for name, x in self.items():
            x = x if self.values_.ndim == 3 else x[np.newaxis]
            dims = ["chain", "draw"] + ["%s_dim_%d" % (name, k) for k in range(x.ndim - 2)]
            variables[name] = (dims, x)
        chains, draws = (self.values_.shape if self.values_.ndim == 3 else (1,) + self.values_.shape)[:2]
        return xarray.Dataset(variables, coords={"chain": np.arange(chains), "draw": np.arange(draws)})

    def to_arviz(self):
        """An arviz.InferenceData with posterior and sample_stats (lp). Without a group log_likelihood: loo() must not be run on a PVI fit."""
        import arviz

        lift = lambda x: x if self.values_.ndim == 3 else x[np.newaxis]
        return arviz.from_dict(posterior={k: lift(v) for k, v in self.items()},
                               sample_stats={"lp": lift(self.lp)})

    def __repr__(self):
        shape = self.values_.shape[:-1]
        return "<pvi.Draws %s of %s>" % (" x ".join(map(str, shape)), ", ".join(self))


def _by_variable(columns, values):
    """Columns theta.1.2 of one variable become its array; the first index is the fastest. Items of tuples (p:1, q.3:2) are variables of their own."""
    found = {}
    for k, column in enumerate(columns):
        tuples, colon, last = column.rpartition(":")
        name, *index = last.split(".")
        name = tuples + colon + name
        found.setdefault(name, []).append((k, [int(i) for i in index] if all(i.isdigit() for i in index) else []))
    out = {}
    for name, items in found.items():
        at = [k for k, _ in items]
        x = values[..., at]
        dims = [max(i[d] for _, i in items) for d in range(len(items[0][1]))]
        if not dims:
            out[name] = x[..., 0] if len(at) == 1 else x
        else:
            lead = x.shape[:-1]
            out[name] = x.reshape(lead + tuple(reversed(dims))).transpose(
                tuple(range(len(lead))) + tuple(range(len(lead) + len(dims) - 1, len(lead) - 1, -1)))
    return out


def _shown(name):
    """A score as tables show it: its title with its direction, and the sign of its values there."""
    sign = C.c_int()
    title = L.text(lib.pvi_score_title(name.encode(), C.byref(sign)))
    return "%s, %s is better" % (title, "smaller" if sign.value < 0 else "larger"), sign.value


class Score:
    """One score of one part: sum, mean and standard error of the mean; larger is better. `rows` are those of `observations`, counted from 0."""

    def __init__(self, s):
        self.part, self.name, self.n, self.sum, self.mean, self.se = L.text(s.part), L.text(s.name), s.n, s.sum, s.mean, s.se
        self.observations = np.array(s.observations[: s.n], dtype=np.intp)
        self.rows = L.array(s.rows, s.n)

    def __repr__(self):
        return "<pvi.Score %s of %s: %.6g (mean %.4g, se %.2g)>" % (self.name, self.part, self.sum, self.mean, self.se)


def _export(folder, to, out):
    if folder is None:
        raise L.UsageError("a run can be exported when it has a folder: out=...")
    said = C.c_char_p()
    with L.Context() as c:
        c.call(lib.pvi_export_report, folder.encode(), c.options({"to": to, "out": out}, "export"), C.byref(said))
        return L.text(said.value).split(": ")[0]


class Fit:
    """A fitted q. Attributes: converged, interrupted, reason, objective, score, regularizer, evaluations, iterations, seconds, family, folder
    (None: it was not written), mean and sd (of the unconstrained parameters), scores."""

    def __init__(self, run, model, options):
        self._handle = L.Handle(run, lib.pvi_run_free, (model,))
        self.model, self.options = model, options
        r = lib.pvi_result_of(run).contents
        for name in ("objective", "score", "regularizer", "evaluations", "iterations", "seconds"):
            setattr(self, name, getattr(r, name))
        self.converged, self.interrupted = bool(r.converged), bool(r.interrupted)
        self.reason, self.family, self.folder = L.text(r.reason), L.text(r.family), L.text(r.folder)
        self.mean, self.sd = L.array(r.mean, r.dim), L.array(r.sd, r.dim)
        self.scores = [Score(lib.pvi_score_at(run, k)) for k in range(lib.pvi_scores(run))]

    @property
    def _r(self):
        return self._handle.pointer

    @property
    def seed(self):
        """Of the fit's random numbers."""
        return int(self.options["seed"]) if "seed" in self.options else int(self.summary()["seed"])

    def score_of(self, part, name):
        """The `Score` of a part ("train", "valid", "test") and a name ("log", "crps", ...)."""
        for s in self.scores:
            if (s.part, s.name) == (part, name):
                return s
        raise KeyError((part, name))

    def draws(self, n=1000, seed=None):
        """Draws of q: `Draws`. With the seed of the fit (the default) and as many as it saved they are those of draws.csv. `log_p` is the log
        joint density of the training part with Jacobian (`lp` is the same), `log_q` that of q."""
        seed = self.seed if seed is None else int(seed)
        out = C.POINTER(L.DrawsStruct)()
        with L.Context() as c:
            c.call(lib.pvi_draw, self._r, n, seed, C.byref(out))
        d = out.contents
        names = [L.text(d.names[k]) for k in range(d.ncols)]
        log_p = L.array(d.log_p, d.n)
        found = Draws(names, L.array(d.values, d.n, d.ncols), L.array(d.theta, d.n, d.dim), lp=log_p, log_p=log_p, log_q=L.array(d.log_q, d.n))
        lib.pvi_draws_free(out)
        return found

    def predict(self, new_data=None, **options):
        """Predictions of every observation of new data (a file, a dict; None: the data of the fit): `Predictions`.

        Options: levels (of quantiles), outcomes (simulated, of each), metric, n, seed, set, alpha.
        """
        from .model import _DataFile

        data = _DataFile(new_data)
        out = C.POINTER(L.PredictionsStruct)()
        with L.Context() as c:
            c.call(lib.pvi_predict, self._r, data.encoded(), c.options(options, "predict"), C.byref(out))
        return Predictions(out)

    def log_q(self, theta):
        """log q at unconstrained points [n x dim]."""
        points, p = L.doubles(np.atleast_2d(theta))
        if points.shape[1] != len(self.mean):
            raise L.UsageError("a point has %d unconstrained parameters, not %d" % (len(self.mean), points.shape[1]))
        out, to = L.doubles(np.empty(len(points)))
        with L.Context() as c:
            c.call(lib.pvi_log_q, self._r, p, len(points), to)
        return out

    @property
    def covariance(self):
        """Of the unconstrained parameters under q: [dim x dim]."""
        out, to = L.doubles(np.empty((len(self.mean), len(self.mean))))
        with L.Context() as c:
            c.call(lib.pvi_covariance, self._r, to)
        return out

    def _report(self, function, **options):
        said = C.c_char_p()
        with L.Context() as c:
            c.call(function, self._r, c.options(options, "fit"), C.byref(said))
            return L.text(said.value)

    def report(self, width=100):
        """What `pvi fit` prints: the verdict, scores, parameters."""
        return self._report(lib.pvi_fit_report, width=width)

    def summary(self, **options):
        """Everything machine-readable, as a dict."""
        return json.loads(self._report(lib.pvi_fit_report, json=True, **options), object_hook=number_words)

    @property
    def verdict(self):
        """What the search for lambda found, in words; where nothing was searched, how the fit ended."""
        return self.summary().get("verdict") or self.reason

    def export(self, to="zarr", out=None):
        """Writes the run (one with a folder) for ArviZ and xarray, as `pvi export` does; returns where."""
        return _export(self.folder, to, out)

    def to_xarray(self, n=1000):
        return self.draws(n).to_xarray()

    def to_arviz(self, n=1000):
        return self.draws(n).to_arviz()

    def __str__(self):
        return self.report()

    def __repr__(self):
        return "<pvi.Fit %s, %s: objective %.6g, %s>" % (self.options.get("score", "q"), self.family, self.objective,
                                                         "converged" if self.converged else self.reason)

    def _repr_html_(self):
        shown = [(s, *_shown(s.name)) for s in self.scores]
        rows = [[s.part, title, float(s.n), sign * s.sum, sign * s.mean, s.se] for s, title, sign in shown]
        text = html.escape(self.report())
        return "<p><b>%s</b></p><p>%s</p>%s<details><summary>report</summary><pre>%s</pre></details>" % (
            html.escape(repr(self).strip("<>")), html.escape(self.verdict), _table(["part", "score", "n", "sum", "mean", "se"], rows), text)


class Posterior:
    """Draws of the posterior. `draws` are `Draws` [chains x draws x ...]; rhat, ess_bulk, ess_tail and mcse are dicts by column; trusted and
    verdict say what the diagnostics come to; str() is the report of `pvi sample`."""

    def __init__(self, pointer, model, report):
        p = pointer.contents
        shape = (p.chains, p.draws)
        names = [L.text(p.names[k]) for k in range(p.ncols)]
        self.draws = Draws(names, L.array(p.values, *shape, p.ncols), L.array(p.theta, *shape, p.dim), lp=L.array(p.lp, *shape))
        for name in ("rhat", "ess_bulk", "ess_tail", "mcse"):
            setattr(self, name, dict(zip(names, L.array(getattr(p, name), p.ncols))))
        self.divergences, self.trusted, self.interrupted = p.divergences, bool(p.trusted), bool(p.interrupted)
        self.verdict, self.folder, self.model, self.text = L.text(p.verdict), L.text(p.folder), model, report
        lib.pvi_posterior_free(pointer)

    def export(self, to="zarr", out=None):
        """Writes the run (one with a folder) for ArviZ and xarray, as `pvi export` does; returns where."""
        return _export(self.folder, to, out)

    def predict(self, new_data=None, **options):
        """Predictions of the posterior's draws, as `Fit.predict`; of a run with a folder: ``sample(out=...)``."""
        from .model import read

        if self.folder is None:
            raise L.UsageError("predictions are made from a run that has a folder: sample(out=...)")
        return read(self.folder).predict(new_data, **options)

    def to_xarray(self):
        return self.draws.to_xarray()

    def to_arviz(self):
        return self.draws.to_arviz()

    def __str__(self):
        return self.text

    def __repr__(self):
        chains, draws = self.draws.matrix.shape[:2]
        return "<pvi.Posterior %d chains of %d draws: %s>" % (chains, draws, self.verdict)

    def _repr_html_(self):
        x = self.draws.matrix
        rows = [[n, x[..., k].mean(), x[..., k].std(), self.ess_bulk[n], self.rhat[n]] for k, n in enumerate(self.draws.columns[:40])]
        return "<p>%s</p>%s" % (html.escape(self.verdict), _table(["variable", "mean", "sd", "effective draws", "R-hat"], rows))


class Predictions:
    """Predictions, one for each observation: mean, sd, quantiles [n x levels], scores (a dict of arrays), outcomes [n x simulated] or None.
    `note` says why something is not available."""

    def __init__(self, pointer):
        p = pointer.contents
        self.levels, self.mean, self.sd = L.array(p.levels, p.nlevels), L.array(p.mean, p.n), L.array(p.sd, p.n)
        self.quantiles = L.array(p.quantiles, p.n, p.nlevels)
        scores = L.array(p.scores, p.n, p.nscores)
        self.scores = {L.text(p.names[k]): scores[:, k] for k in range(p.nscores)} if scores is not None else {}
        self.outcomes = L.array(p.outcomes, p.n, p.noutcomes) if p.noutcomes else None
        self.note = L.text(p.note)
        lib.pvi_predictions_free(pointer)

    def __len__(self):
        return len(self.mean)

    def __repr__(self):
        return "<pvi.Predictions of %d observations>" % len(self)

    def _repr_html_(self):
        rows = [[float(i), self.mean[i], self.sd[i]] + list(self.quantiles[i]) for i in range(min(len(self), 40))]
        return _table(["observation", "mean", "sd"] + ["%g%%" % (100 * p) for p in self.levels], rows)


class _Report(dict):
    """What a command found, as a dict; `json` is its text."""

    def __init__(self, found, text):
        super().__init__(found)
        self.json = text

    def __repr__(self):
        return "<pvi.%s: %s>" % (type(self).__name__, ", ".join(self))

    def _repr_html_(self):
        return "<pre>%s</pre>" % html.escape(json.dumps(self, indent=2)[:20000])


class Comparison(_Report):
    """Fits side by side: what `pvi compare --json` prints. `rows` are one tuple for each score and fit: score, fit, sum, difference to the best,
    its standard error; `scored_on` says which observations were scored."""

    @property
    def rows(self):
        return [(s["score"], f["label"], f["sum"], f["difference"], f["se"]) for s in self["comparison"] for f in s["fits"]]

    @property
    def scored_on(self):
        return self["rows"]

    def _repr_html_(self):
        shown = [(_shown(row[0]), row) for row in self.rows]
        rows = [[title, fit, sign * total, sign * difference, se] for (title, sign), (_, fit, total, difference, se) in shown]
        return _table(["score", "fit", "sum", "difference to the best", "se"], rows)


class Bag(_Report):
    """What `pvi bag --json` prints: the bagged posterior beside Bayes, and how far Bayes is too sure."""


class Diagnosis(_Report):
    """What `pvi diagnose --json` prints: which variables vary, what freeing them gains, larger programs. `verdict` says it in words."""

    @property
    def verdict(self):
        return self["verdict"]

    def _repr_html_(self):
        rows = [[v["name"], v["gain"], v["se"], v["sd"], v["bayes_sd"]] for v in self["variables"]]
        return "<p>%s</p>%s" % (html.escape(self.verdict), _table(["variable", "gain (larger is better)", "se", "sd", "sd by Bayes"], rows))
