"""Results of a notebook: answers, the estimates they improved, and the predicted cost of a question."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from statistics import NormalDist

from crosstally.budget import Budget
from crosstally.checks import is_number
from crosstally.errors import QueryError
from crosstally.notebook.history.error_law import DEVIATION, FREEDOM
from crosstally.query.queries import Query


@dataclass(frozen=True, slots=True)
class Answer:
    """A number, from everything ever measured, with its standard error.

    ``drawn`` and ``drawn_error`` are the noisy answer that this question paid for, if any; ``key`` finds it in the
    ledger. The standard error includes the possible bias from what was never asked, and the uncertainty about how
    far the rows differ from the prior. ``tails`` says how likely large errors are: 0 as for a normal distribution, 1
    as for a Laplace one; ``student`` is the part of the standard error that comes from Student's law with 3 degrees of
    freedom, for new questions. ``converged`` is False if the fit to past answers had not converged when it was used.
    ``foreign`` names the sources of used answers that the ledger's budget does not cover. ``counted`` says what is
    counted, if rows are bounded.
    """

    question: str
    value: float
    _: KW_ONLY
    std_error: float
    drawn: float | None = None
    drawn_error: float | None = None
    key: str | None = None
    tails: float = 0.0
    student: float = 0.0
    converged: bool = True
    foreign: tuple[str, ...] = ()
    counted: str = ""

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """The ends of an interval that contains the true answer with about this probability."""
        if not is_number(level) or not 0 < level < 1:
            raise QueryError(f"level must be between 0 and 1, got {level!r}")
        from scipy.special import stdtrit

        normal, laplace = NormalDist().inv_cdf((1 + level) / 2), -math.log(1 - level) / math.sqrt(2)
        student = float(stdtrit(FREEDOM, (1 + level) / 2)) / DEVIATION
        kernel = (1 - self.tails) * normal + self.tails * laplace
        quantile = (1 - self.student) * kernel + self.student * student
        return self.value - quantile * self.std_error, self.value + quantile * self.std_error

    def __str__(self) -> str:
        text = f"{self.question}: {self.value:,.0f} ± {self.std_error:,.0f}"
        text += f" {self.counted}" if self.counted else ""
        if self.foreign:
            text = f"{text} (also from {', '.join(self.foreign)}, which the budget does not cover)"
        return text if self.converged else f"{text} (not converged)"


@dataclass(frozen=True, slots=True)
class Improvement:
    """A past answer as it was drawn, and its estimate from all past answers together."""

    question: str
    before: float
    _: KW_ONLY
    before_error: float
    after: float
    after_error: float


@dataclass(frozen=True, slots=True)
class TableImprovement:
    """The error of each number of a past table or contrast, alone and together with all other tables.

    Both are exact for least squares, before negative cells are corrected. Linear answers are not used.
    """

    query: Query
    _: KW_ONLY
    before_error: float
    after_error: float


@dataclass(frozen=True, slots=True)
class Price:
    """What an answer of the wanted accuracy costs; ``budget`` is None when past answers already give it."""

    estimate: Answer | None
    budget: Budget | None

    @property
    def free(self) -> bool:
        """Whether nothing needs to be spent."""
        return self.budget is None
