"""Answers of several releases together."""

from __future__ import annotations

from dataclasses import replace

from crosstally.answers.marginal import Marginal
from crosstally.answers.uncertainty import Joint, joined
from crosstally.errors import QueryError

__all__ = ["independent"]


def independent(*answers: Marginal) -> tuple[Marginal, ...]:
    """The same answers, stated to be of independent releases, so that they can be compared.

    Releases are independent when their noise was drawn separately: two years, two countries, two ledgers. A release and
    its refit are not, and neither are two files with the same measurements: these are refused.
    ``before, after = independent(last_year.marginal("sex"), this_year.marginal("sex"))``, then ``after - before``.
    """
    joints = [each.joint for each in answers if each.joint is not None]
    if len(joints) < len(answers):
        raise QueryError("an answer whose error is not known cannot be stated to be independent")
    return tuple(_beside(each, joint) for each, joint in zip(answers, joined(joints), strict=True))


def _beside(answer: Marginal, joint: Joint) -> Marginal:
    assert answer.uncertainty is not None  # it has a joint one
    return replace(answer, uncertainty=replace(answer.uncertainty, joint=joint))
