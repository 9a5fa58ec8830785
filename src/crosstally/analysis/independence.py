"""Answers of several releases together."""

from __future__ import annotations

from dataclasses import replace

from crosstally.arithmetic.origin import joined
from crosstally.errors import QueryError
from crosstally.tables import Marginal

__all__ = ["independent"]


def independent(*answers: Marginal) -> tuple[Marginal, ...]:
    """The same answers, stated to be of independent releases, so that they can be compared.

    Releases are independent when their noise was drawn separately: two years, two countries, two ledgers. A release and
    its refit are not, and neither are two files with the same measurements: these are refused.
    ``before, after = independent(last_year.marginal("sex"), this_year.marginal("sex"))``, then ``after - before``.
    """
    origins = [each.origin for each in answers if each.origin is not None]
    if len(origins) < len(answers):
        raise QueryError("an answer whose error is not known cannot be stated to be independent")
    return tuple(replace(each, origin=origin) for each, origin in zip(answers, joined(origins), strict=True))
