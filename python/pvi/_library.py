"""libpvi.so through ctypes: the library, its structs, and how a call runs.

A call has a context of its own (`Context`), whose messages become exceptions. Long calls run in a thread, so that Ctrl-C can cancel them: the
main thread waits, and asks the library to stop.
"""
import ctypes as C
import ctypes.util
import os
import re
import sys
import threading
import warnings
from typing import NamedTuple, Optional

import numpy as np

P_DOUBLE, P_SIZE, P_CHAR = C.POINTER(C.c_double), C.POINTER(C.c_size_t), C.c_char_p
TEMPORARY = "pvi-data-"  # how files of data that were no files are called
OK, FAILURE, USAGE, DATA, PROGRAM, NOT_CONVERGED, INTERRUPTED = range(7)


class Struct(C.Structure):
    """A struct whose fields are given as 'type name name, type name ...'."""

    _types = {"size": C.c_size_t, "double": C.c_double, "int": C.c_int, "uint": C.c_uint, "long": C.c_long, "text": P_CHAR,
              "doubles": P_DOUBLE, "sizes": P_SIZE, "texts": C.POINTER(P_CHAR)}


def struct(name, fields):
    pairs = []
    for group in fields.split(","):
        kind, *names = group.split()
        pairs += [(n, Struct._types[kind]) for n in names]
    return type(name, (Struct,), {"_fields_": pairs})


# As include/pvi.h has them.
MessageStruct = struct("MessageStruct", "text kind file, uint line column, text text")
Progress = struct("Progress", "text stage, long done total evaluations, double objective seconds")
Option = struct("Option", "text name kind value byself, double least most, text group commands help")
Split = struct("Split", "sizes train valid test, size ntrain nvalid ntest")
Densities = struct("Densities", "doubles lp prior jacobian likelihood gradient pointwise")
Result = struct("Result", "int converged interrupted, text reason, double objective score regularizer, long evaluations iterations, "
                "double seconds, text family folder, size dim, doubles mean sd")
ScoreStruct = struct("ScoreStruct", "text part name, size n, double sum mean se, sizes observations, doubles rows")
PosteriorStruct = struct("PosteriorStruct", "size chains draws ncols dim, texts names, doubles values theta lp rhat ess_bulk ess_tail mcse, "
                         "size divergences, int trusted interrupted, text verdict folder")
DrawsStruct = struct("DrawsStruct", "size n ncols dim, texts names, doubles values theta log_p log_q")
PredictionsStruct = struct("PredictionsStruct", "size n nlevels nscores noutcomes, doubles levels mean sd quantiles, texts names, "
                           "doubles scores outcomes, text note")
Report = C.CFUNCTYPE(C.c_int, C.c_void_p, C.POINTER(Progress))

V, I, SZ, U64, S = C.c_void_p, C.c_int, C.c_size_t, C.c_uint64, P_CHAR
PV = C.POINTER(C.c_void_p)
# name: result, arguments
FUNCTIONS = {
    "pvi_version": (S, []), "pvi_open": (V, []), "pvi_close": (None, [V]), "pvi_error": (S, [V]), "pvi_messages": (SZ, [V]),
    "pvi_message_at": (MessageStruct, [V, SZ]), "pvi_on_progress": (None, [V, Report, V]), "pvi_cancel": (None, [V]),
    "pvi_progress_line": (SZ, [S, SZ, SZ, S, C.POINTER(Progress)]), "pvi_options_new": (V, [V]), "pvi_options_free": (None, [V]),
    "pvi_options_for": (I, [V, S]), "pvi_set": (I, [V, S, S]), "pvi_get": (S, [V, S]), "pvi_option_count": (SZ, []), "pvi_option_at": (Option, [SZ]),
    "pvi_load": (I, [V, S, S, V, PV]), "pvi_load_text": (I, [V, S, S, V, PV]), "pvi_model_free": (None, [V]), "pvi_dim": (SZ, [V]),
    "pvi_observations": (SZ, [V]), "pvi_parameter": (S, [V, SZ]), "pvi_columns": (SZ, [V]), "pvi_parameter_columns": (SZ, [V]),
    "pvi_column": (S, [V, SZ]), "pvi_constrain": (I, [V, V, P_DOUBLE, SZ, U64, P_DOUBLE]), "pvi_unconstrain": (I, [V, V, P_DOUBLE, P_DOUBLE]),
    "pvi_density": (I, [V, V, P_DOUBLE, SZ, C.POINTER(Densities)]), "pvi_fit": (I, [V, V, V, C.POINTER(Split), PV]),
    "pvi_npe": (I, [V, V, V, C.POINTER(Split), PV]), "pvi_nre": (I, [V, V, V, C.POINTER(Split), PV]),
    "pvi_resume": (I, [V, S, V, PV]), "pvi_read": (I, [V, S, V, PV]), "pvi_run_free": (None, [V]), "pvi_result_of": (C.POINTER(Result), [V]),
    "pvi_scores": (SZ, [V]), "pvi_score_at": (ScoreStruct, [V, SZ]), "pvi_score_title": (S, [S, C.POINTER(I)]),
    "pvi_sample": (I, [V, V, V, C.POINTER(Split), C.POINTER(C.POINTER(PosteriorStruct))]),
    "pvi_resume_sample": (I, [V, S, V, C.POINTER(C.POINTER(PosteriorStruct))]), "pvi_posterior_free": (None, [C.POINTER(PosteriorStruct)]),
    "pvi_draw": (I, [V, V, SZ, U64, C.POINTER(C.POINTER(DrawsStruct))]), "pvi_draws_free": (None, [C.POINTER(DrawsStruct)]),
    "pvi_log_q": (I, [V, V, P_DOUBLE, SZ, P_DOUBLE]), "pvi_covariance": (I, [V, V, P_DOUBLE]),
    "pvi_predict": (I, [V, V, S, V, C.POINTER(C.POINTER(PredictionsStruct))]), "pvi_predictions_free": (None, [C.POINTER(PredictionsStruct)]),
    "pvi_check_report": (I, [V, S, S, V, C.POINTER(S)]), "pvi_fit_report": (I, [V, V, V, C.POINTER(S)]),
    "pvi_sample_report": (I, [V, C.POINTER(PosteriorStruct), V, C.POINTER(S)]), "pvi_summary_report": (I, [V, V, V, C.POINTER(S)]),
    "pvi_compare_report": (I, [V, C.POINTER(S), SZ, V, C.POINTER(S)]), "pvi_diagnose_report": (I, [V, V, V, C.POINTER(S)]),
    "pvi_bag_report": (I, [V, V, V, C.POINTER(S)]), "pvi_export_report": (I, [V, S, V, C.POINTER(S)]),
    "pvi_page_report": (I, [V, C.POINTER(S), SZ, V, C.POINTER(S)]),
}


def _places():
    here = os.path.dirname(os.path.abspath(__file__))
    if os.environ.get("PVI_LIBRARY"):
        yield os.environ["PVI_LIBRARY"]
        return
    yield os.path.join(here, "libpvi.so")
    yield os.path.join(here, "..", "..", "build", "libpvi.so")
    yield "libpvi.so.0"
    if ctypes.util.find_library("pvi"):
        yield ctypes.util.find_library("pvi")


def _load():
    tried = []
    for place in _places():
        try:
            library = C.CDLL(place)
            break
        except OSError as e:
            tried.append(str(e))
    else:
        raise ImportError("libpvi.so was not found: build it with `make`, install it with `make install`, or name it in PVI_LIBRARY\n  "
                          + "\n  ".join(tried))
    for name, (result, arguments) in FUNCTIONS.items():
        f = getattr(library, name)
        f.restype, f.argtypes = result, arguments
    return library


lib = _load()


# ---- errors ----------------------------------------------------------------------------------------------------------------------------------


class Message(NamedTuple):
    """What the library had to say: kind is "error", "warning" or "note"; file is None where there is no place."""

    kind: str
    file: Optional[str]
    line: int
    column: int
    text: str


class PviError(RuntimeError):
    """The machine or the run failed. `messages` has what was said, one by one, with its place."""

    def __init__(self, text, messages=()):
        super().__init__(text)
        self.messages = list(messages)


class UsageError(PviError, ValueError):
    """An option or an argument is wrong."""


class DataError(PviError, ValueError):
    """Data, a split or a run folder are wrong."""


class ProgramError(PviError, ValueError):
    """The Stan program is wrong."""


class NotConverged(UserWarning):
    """The result is there, but not to be relied on: the message says why."""


ERRORS = {FAILURE: PviError, USAGE: UsageError, DATA: DataError, PROGRAM: ProgramError}


def text(s):
    return None if s is None else s.decode("utf-8", "replace")


def version():
    """The version of the library."""
    return text(lib.pvi_version())


def options(command="fit"):
    """The options of a command as a dict: name -> (value, default, help).

    >>> pvi.options("sample")["chains"]
    ('N', '32', 'Markov chains; ...')
    """
    found = {}
    for k in range(lib.pvi_option_count()):
        o = lib.pvi_option_at(k)
        if command in text(o.commands).split():
            found[text(o.name).replace("-", "_")] = (text(o.value), text(o.byself), text(o.help))
    return found


# ---- calls -----------------------------------------------------------------------------------------------------------------------------------


class Context:
    """One call, or a few that belong together: messages, progress, options."""

    def __init__(self):
        self.c = lib.pvi_open()
        if not self.c:
            raise MemoryError("pvi_open")
        self.made = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for o in self.made:
            lib.pvi_options_free(o)
        lib.pvi_close(self.c)

    def options(self, given, command):
        """Options from keywords; lists are given element by element, None is left out, True sets a flag; lambda_ is lambda, a word of Python's.
        Those of other commands are refused by the library."""
        o = lib.pvi_options_new(self.c)
        self.made.append(o)
        self.check(lib.pvi_options_for(o, command.encode()))
        for name, value in given.items():
            name = name.rstrip("_")
            for v in value if isinstance(value, (list, tuple, np.ndarray)) else [value]:
                if v is None or v is False:
                    continue
                word = "true" if v is True else repr(v) if isinstance(v, float) else str(v)
                self.check(lib.pvi_set(o, name.replace("_", "-").encode(), word.encode()))
        return o

    def messages(self):
        return [Message(text(m.kind), text(m.file), m.line, m.column, text(m.text))
                for m in (lib.pvi_message_at(self.c, k) for k in range(lib.pvi_messages(self.c)))]

    def check(self, status):
        """Raises where the call failed; warnings become Python's."""
        messages = self.messages()
        if status in ERRORS:
            said = (text(lib.pvi_error(self.c)) or "the call failed").strip()
            said = re.sub(r"'?[^\s']*%s\w+\.(json|csv)'?" % TEMPORARY, "data", said)
            raise ERRORS[status](re.sub(r"(?m)^pvi: error: ", "", said), messages)
        for m in messages:
            if m.kind == "warning":
                warnings.warn(m.text, stacklevel=4)
        return status

    def call(self, function, *arguments):
        return self.check(function(self.c, *arguments))

    def long_call(self, function, *arguments, progress=None, label="pvi"):
        """The same for what may take its time: with a line of progress, and Ctrl-C that ends it in order."""
        show = _progress(label) if progress or (progress is None and sys.stderr.isatty()) else None
        if show:
            lib.pvi_on_progress(self.c, show, None)
        status, done = [], threading.Event()

        def work():
            try:
                status.append(function(self.c, *arguments))
            finally:
                done.set()

        threading.Thread(target=work, daemon=True).start()
        interrupted = False
        while not done.is_set():  # not join: an interrupt in it lets a thread look as if it had ended
            try:
                done.wait(0.05)
            except KeyboardInterrupt:
                interrupted = True
                lib.pvi_cancel(self.c)
        if show:
            sys.stderr.write("\r\033[K")
        if interrupted and status[0] in ERRORS:
            raise KeyboardInterrupt
        return self.check(status[0])


def _progress(label):
    """A callback that rewrites one line on stderr, at most ten times a second."""
    last = [-1.0]
    line = C.create_string_buffer(512)

    def report(_, p):
        if p.contents.seconds - last[0] >= 0.1:
            last[0] = p.contents.seconds
            lib.pvi_progress_line(line, 512, 79, label.encode(), p)
            sys.stderr.write("\r" + line.value.decode("utf-8", "replace") + "\033[K")
            sys.stderr.flush()
        return 0

    return Report(report)


class Handle:
    """Something of the library's that is freed when nobody holds it any more. `keep`: what must live as long."""

    def __init__(self, pointer, free, keep=()):
        self.pointer, self._free, self._keep = pointer, free, keep

    def __del__(self):
        if self.pointer:
            self._free(self.pointer)
            self.pointer = None


def doubles(x):
    """A contiguous array of doubles, and the pointer to it."""
    a = np.ascontiguousarray(x, dtype=np.float64)
    return a, a.ctypes.data_as(P_DOUBLE)


def array(pointer, *shape):
    """A copy of what the library holds; None where it has nothing."""
    if not pointer or 0 in shape:
        return np.empty(shape) if 0 in shape else None
    return np.ctypeslib.as_array(pointer, shape).copy()
