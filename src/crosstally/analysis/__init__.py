"""What people ask of tables, computed from the answers of a release, with errors.

``crosstabs``    rows against columns, with totals and shares
``ratios``       odds ratios and relative risks
``mean``         of numbers counted in bins, and their ``quantile``
``association``  whether two attributes are related, and how strongly; ``test`` of any two tables
``glm``          logistic and log-linear models
``compute``      any function of tables
``quality``      flags by the coefficient of variation, and suppression
``regrouping``   values put together, as URLs and the command line say it

Sums, shares, differences and ratios are methods and operators of ``Marginal`` itself.
"""

from crosstally.analysis.associations import Association, association, cramers_v, crosstab, independent
from crosstally.analysis.binned_numbers import mean, quantile
from crosstally.analysis.computing import compute
from crosstally.analysis.models import glm
from crosstally.analysis.quality_flags import Quality, coefficient_of_variation, quality, suppress
from crosstally.analysis.ratios import odds_ratio, relative_risk
from crosstally.analysis.significance import HypothesisTest, test

__all__ = [
    "Association",
    "HypothesisTest",
    "Quality",
    "association",
    "coefficient_of_variation",
    "compute",
    "cramers_v",
    "crosstab",
    "glm",
    "independent",
    "mean",
    "odds_ratio",
    "quality",
    "quantile",
    "relative_risk",
    "suppress",
    "test",
]
