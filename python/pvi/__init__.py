"""Predictive variational inference for Stan programs.

    >>> import pvi
    >>> model = pvi.Model("golf.stan", "golf.csv")
    >>> fit = model.fit(score="crps")      # q whose predictions score best; score="elbo": ordinary VI
    >>> fit.draws()["theta0"].mean()
    >>> fit.predict()                      # means, quantiles and scores of every observation
    >>> model.sample()                     # exact Bayes: draws of the posterior
    >>> model.diagnose()                   # which variables vary in the population beyond what Bayes says
    >>> pvi.compare([fit, other])          # paired differences of scores
    >>> pvi.report([fit], page="fit.html") # what was found, as one HTML page

Options are those of the command line (`pvi.options()` lists them), with underscores for dashes: ``model.fit(learning_rate=0.01)``.
An option that the method does not have is refused, with the nearest one that it has.
What the library refuses is an exception with its message: `ProgramError`, `DataError`, `UsageError`, `PviError`.
"""
from ._library import DataError, Message, NotConverged, ProgramError, PviError, UsageError, options, version
from .model import Model, compare, read, report, resume, resume_sample
from .results import Bag, Comparison, Diagnosis, Draws, Fit, Posterior, Predictions, Score

__version__ = version()
__all__ = [
    "Model", "read", "resume", "resume_sample", "compare", "report", "options", "version", "Bag", "Fit", "Posterior", "Draws", "Predictions", "Score", "Comparison",
    "Diagnosis", "Message", "PviError", "UsageError", "DataError", "ProgramError", "NotConverged",
]
