"""Model: a Stan program with its data; and what works on several of them."""
import ctypes as C
import json
import os
import tempfile
import warnings

import numpy as np

from . import _library as L
from ._library import lib
from .results import Bag, Comparison, Diagnosis, Fit, Posterior, number_words


def _plain(x):
    """Values as Stan's JSON has them."""
    if isinstance(x, dict):
        return {str(k): _plain(v) for k, v in x.items()}
    if hasattr(x, "to_numpy"):  # pandas
        x = x.to_numpy()
    if isinstance(x, np.ndarray):
        if np.iscomplexobj(x):
            return _plain(np.stack([x.real, x.imag], axis=-1))
        return _numbers(x)
    if isinstance(x, tuple):
        return {str(k + 1): _plain(v) for k, v in enumerate(x)}
    if isinstance(x, list):
        return [_plain(v) for v in x]
    if isinstance(x, (bool, np.bool_, np.integer)):
        return int(x)
    if isinstance(x, np.floating):
        return float(x)
    if isinstance(x, (complex, np.complexfloating)):
        return [x.real, x.imag]
    return x


def _numbers(x):
    if x.dtype == bool:
        x = x.astype(np.int64)
    if not (np.issubdtype(x.dtype, np.integer) or np.issubdtype(x.dtype, np.floating)):
        raise L.DataError("data must be numbers, not %s" % x.dtype)
    return x.tolist()


def _is_frame(data):
    return hasattr(data, "columns") and hasattr(data, "to_csv")


def stan_json(data):
    """A dict, or a pandas DataFrame whose columns are variables, as Stan's JSON."""
    if _is_frame(data):
        data = {str(k): data[k] for k in data.columns}
    return json.dumps({str(k): _plain(v) for k, v in dict(data).items()})


def _table(frame):
    """A pandas DataFrame as CSV: sizes then are its number of rows, and what is no number is told with its row. Factors count from 1."""
    frame = frame.copy()
    for k in frame.columns:
        if str(frame[k].dtype) == "category":
            frame[k] = frame[k].cat.codes + 1
        elif frame[k].dtype == bool:
            frame[k] = frame[k].astype(int)
    return frame.to_csv(index=False, na_rep="NA")


def _text(data):
    return _table(data) if _is_frame(data) else stan_json(data)


class _DataFile:
    """Data as a file: a path as it is, or a dict in a temporary file that goes with this object."""

    def __init__(self, data):
        self.path, self._own = None, False
        if data is None:
            return
        if isinstance(data, (str, os.PathLike)):
            self.path = os.fspath(data)
            return
        handle, self.path = tempfile.mkstemp(suffix=".csv" if _is_frame(data) else ".json", prefix=L.TEMPORARY)
        self._own = True
        with os.fdopen(handle, "w") as f:
            f.write(_text(data))

    def encoded(self):
        return None if self.path is None else self.path.encode()

    def __del__(self):
        if self._own:
            try:
                os.unlink(self.path)
            except OSError:
                pass


def _split(split):
    """Numbers of observations, counted from 0, as the library wants them; what it points to is returned, too."""
    if split is None:
        return None, []
    unknown = set(split) - {"train", "valid", "test"}
    if unknown:
        raise L.UsageError("a split has train, valid and test, not %s" % ", ".join(sorted(unknown)))
    s, kept = L.Split(), []
    for part in ("train", "valid", "test"):
        if split.get(part) is not None:
            a = np.ascontiguousarray(split[part], dtype=np.uintp)
            kept.append(a)
            setattr(s, part, a.ctypes.data_as(L.P_SIZE))
            setattr(s, "n" + part, a.size)
    return C.byref(s), kept + [s]


class Model:
    """A Stan program and its data.

    program: a file, or the program's text (what has a line break or a brace is text).
    data: a file (Stan JSON or CSV), a dict, a pandas DataFrame of columns, or None.
    options: `set`, `include`, `observe`, `unit`, ... as on the command line; ``set={"N": 19}`` gives scalars.
    """

    def __init__(self, program, data=None, **options):
        program = os.fspath(program)
        is_text = "\n" in program or "{" in program
        if isinstance(options.get("set"), dict):
            options["set"] = ["%s=%s" % item for item in options["set"].items()]
        self._options = options
        self.name = "model" if is_text else os.path.splitext(os.path.basename(program))[0]
        out = C.c_void_p()
        with L.Context() as c:
            o = c.options(options, "check")
            if is_text:
                content = None if data is None else open(data).read() if isinstance(data, (str, os.PathLike)) else _text(data)
                c.call(lib.pvi_load_text, program.encode(), None if content is None else content.encode(), o, C.byref(out))
                self._data = None
            else:
                self._data = _DataFile(data)
                c.call(lib.pvi_load, program.encode(), self._data.encoded(), o, C.byref(out))
        self._handle = L.Handle(out, lib.pvi_model_free, (self._data,))
        self._places = None if is_text else (program, self._data.path)

    @property
    def _m(self):
        return self._handle.pointer

    # ---- what it is ----

    @property
    def dim(self):
        """How many unconstrained parameters there are."""
        return lib.pvi_dim(self._m)

    @property
    def observations(self):
        """How many observations the likelihood factorises into."""
        return lib.pvi_observations(self._m)

    @property
    def parameters(self):
        """Names of the unconstrained parameters."""
        return [L.text(lib.pvi_parameter(self._m, k)) for k in range(self.dim)]

    @property
    def columns(self):
        """Names of the output columns, dotted: parameters, transformed parameters, generated quantities."""
        return [L.text(lib.pvi_column(self._m, k)) for k in range(lib.pvi_columns(self._m))]

    def check(self):
        """What pvi makes of the program and its data, in words: observations, loops, integration."""
        if not self._places:
            raise L.UsageError("check needs a program in a file")
        said = C.c_char_p()
        with L.Context() as c:
            data = self._places[1]
            c.call(lib.pvi_check_report, self._places[0].encode(), None if data is None else data.encode(), c.options(self._options, "check"), C.byref(said))
            return L.text(said.value)

    def __repr__(self):
        return "<pvi.Model %s: %d parameters, %d observations>" % (self.name, self.dim, self.observations)

    # ---- densities ----

    def _points(self, theta):
        theta = np.atleast_2d(np.asarray(theta, dtype=float))
        if theta.shape[1] != self.dim:
            raise L.UsageError("a point has %d unconstrained parameters, not %d" % (self.dim, theta.shape[1]))
        return L.doubles(theta)

    def log_density(self, theta, gradient=False, pointwise=False):
        """The log density with all constants and Jacobians at unconstrained points [n x dim].

        Returns a dict of arrays: lp, prior, jacobian, likelihood and, where asked for, gradient [n x dim] and pointwise [n x observations].
        """
        points, p = self._points(theta)
        n = len(points)
        shapes = {"lp": (n,), "prior": (n,), "jacobian": (n,), "likelihood": (n,)}
        if gradient:
            shapes["gradient"] = (n, self.dim)
        if pointwise:
            shapes["pointwise"] = (n, self.observations)
        found = {k: np.empty(s) for k, s in shapes.items()}
        out = L.Densities(**{k: a.ctypes.data_as(L.P_DOUBLE) for k, a in found.items()})
        with L.Context() as c:
            c.call(lib.pvi_density, self._m, p, n, C.byref(out))
        return found

    def constrain(self, theta, seed=1):
        """All output columns [n x columns] at unconstrained points [n x dim]."""
        points, p = self._points(theta)
        out, to = L.doubles(np.empty((len(points), lib.pvi_columns(self._m))))
        with L.Context() as c:
            c.call(lib.pvi_constrain, self._m, p, len(points), seed, to)
        return out

    def unconstrain(self, columns):
        """The unconstrained point of the parameters' columns."""
        values, p = L.doubles(columns)
        if values.size < lib.pvi_parameter_columns(self._m):
            raise L.UsageError("a point has %d columns of parameters, not %d" % (lib.pvi_parameter_columns(self._m), values.size))
        out, to = L.doubles(np.empty(self.dim))
        with L.Context() as c:
            c.call(lib.pvi_unconstrain, self._m, p, to)
        return out

    # ---- fits ----

    def fit(self, score="log", split=None, progress=None, **options):
        """The distribution q of the parameters whose predictions score best: a `Fit`.

        score: "log", "crps", ...; "elbo" is ordinary VI. split: dict of observations (counted from 0) to train on, to validate on and to test on.
        Further options are those of `pvi fit` (`pvi.options("fit")`): family, lambda_, regularize, holdout, seed, out, ...
        Ctrl-C ends the fit with the best q so far, and a warning.
        """
        return self._fit(lib.pvi_fit, "fit", split, progress, dict(options, score=score))

    def npe(self, split=None, progress=None, **options):
        """Neural posterior estimation: a network that learned from simulations says what q is: a `Fit`. Options are those of `pvi npe`."""
        return self._fit(lib.pvi_npe, "npe", split, progress, options)

    def nre(self, split=None, progress=None, **options):
        """Neural ratio estimation: draws of the posterior by a learned ratio, as a `Fit` of particles. Options are those of `pvi nre`."""
        return self._fit(lib.pvi_nre, "nre", split, progress, options)

    def _fit(self, function, command, split, progress, options):
        if isinstance(split, (str, os.PathLike)):
            options["split"], split = os.fspath(split), None
        parts, kept = _split(split)
        run = C.c_void_p()
        with L.Context() as c:
            status = c.long_call(function, self._m, c.options(options, command), parts, C.byref(run), progress=progress, label=self.name)
        del kept
        fit = Fit(run, self, options)
        if status == L.NOT_CONVERGED:
            warnings.warn("%s: %s" % (self.name, fit.reason), L.NotConverged, stacklevel=3)
        if status == L.INTERRUPTED:
            warnings.warn("interrupted: this is the best q so far", L.NotConverged, stacklevel=3)
        return fit

    def sample(self, split=None, progress=None, **options):
        """Exact Bayes: draws of the posterior by Hamiltonian Monte Carlo: a `Posterior`.

        Options are those of `pvi sample`: chains, draws, warmup, method, metric, accept, init, seed, out, ... Ctrl-C keeps the draws so far.
        """
        if isinstance(split, (str, os.PathLike)):
            options["split"], split = os.fspath(split), None
        parts, kept = _split(split)
        out = C.POINTER(L.PosteriorStruct)()
        with L.Context() as c:
            o = c.options(options, "sample")
            status = c.long_call(lib.pvi_sample, self._m, o, parts, C.byref(out), progress=progress, label=self.name)
            found = _posterior(c, o, out, self, status)
        del kept
        return found

    def diagnose(self, progress=None, **options):
        """Which variables vary in the population beyond what Bayes says: a `Diagnosis`. Options: simulations, folds, score, family, seed, threads."""
        return Diagnosis(*_both_forms(
            lambda c, o, said: c.long_call(lib.pvi_diagnose_report, self._m, o, said, progress=progress, label=self.name), options, "diagnose"))

    def bag(self, progress=None, **options):
        """BayesBag: the posteriors of resampled data beside the posterior: a `Bag`. Options: bags, family, seed, threads, split, holdout."""
        return Bag(*_both_forms(
            lambda c, o, said: c.long_call(lib.pvi_bag_report, self._m, o, said, progress=progress, label=self.name), options, "bag"))


def _posterior(c, o, out, model, status):
    """What the library returned as draws, with what it says of them."""
    said = C.c_char_p()
    lib.pvi_sample_report(c.c, out, o, C.byref(said))
    found = Posterior(out, model, L.text(said.value))
    if status in (L.NOT_CONVERGED, L.INTERRUPTED):
        warnings.warn("interrupted" if status == L.INTERRUPTED else found.verdict, L.NotConverged, stacklevel=3)
    return found


def _both_forms(report, options, command):
    """A report as text, from what it says as JSON where that is all one needs: what is costly is done once."""
    with L.Context() as c:
        said = C.c_char_p()
        report(c, c.options(dict(options, json=True), command), C.byref(said))
        return json.loads(L.text(said.value), object_hook=number_words), L.text(said.value)


def resume(folder, progress=None):
    """Goes on with the interrupted fit in a run folder: a `Fit`, as an undisturbed one would have been."""
    run = C.c_void_p()
    with L.Context() as c:
        c.long_call(lib.pvi_resume, os.fspath(folder).encode(), None, C.byref(run), progress=progress, label="resume")
    return Fit(run, None, {})


def resume_sample(folder, progress=None):
    """Goes on with the interrupted sampling in a run folder: a `Posterior`, as undisturbed sampling would have come to."""
    out = C.POINTER(L.PosteriorStruct)()
    with L.Context() as c:
        status = c.long_call(lib.pvi_resume_sample, os.fspath(folder).encode(), None, C.byref(out), progress=progress, label="resume")
        return _posterior(c, c.options({}, "sample"), out, None, status)


def read(folder):
    """A run folder again, as a `Fit`. The model is loaded from the files that the folder names when it is needed."""
    run = C.c_void_p()
    with L.Context() as c:
        c.call(lib.pvi_read, os.fspath(folder).encode(), None, C.byref(run))
    return Fit(run, None, {})


def _folders(runs):
    """The folders of runs, as the library wants them; a path is taken as it is."""
    places = []
    for r in [runs] if isinstance(runs, (str, os.PathLike, Fit, Posterior)) else runs:
        folder = r.folder if isinstance(r, (Fit, Posterior)) else os.fspath(r)
        if folder is None:
            raise L.UsageError("this needs a run that has a folder: out=...")
        places.append(folder.encode())
    return (C.c_char_p * len(places))(*places)


def report(runs, progress=None, **options):
    """Runs (fits, posteriors or their folders) as one self-contained HTML page; returns what was written. Options are those of `pvi report`: page,
    plots, threads."""
    names, said = _folders(runs), C.c_char_p()
    with L.Context() as c:
        c.long_call(lib.pvi_page_report, names, len(names), c.options(options, "report"), C.byref(said), progress=progress, label="report")
        return L.text(said.value).strip()


def compare(runs, progress=None, **options):
    """Several fits side by side: scores with paired differences: a `Comparison`.

    runs: fits that were written (``fit(out=...)``), run folders; or programs (.stan) and, last, a file of data: each is then fitted by every method
    of ``methods=["vi", "pvi"]`` on the same folds.
    """
    names = _folders(runs)
    return Comparison(*_both_forms(
        lambda c, o, said: c.long_call(lib.pvi_compare_report, names, len(names), o, said, progress=progress, label="compare"), options, "compare"))
