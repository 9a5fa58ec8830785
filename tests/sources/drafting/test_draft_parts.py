"""The parts of a draft: the order of labels, round edges, names of columns."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest

from crosstally.sources.drafting.edges import bin_names, edges_from_rows, is_crowded
from crosstally.sources.drafting.words import grouped, in_order, missing_tokens


@pytest.mark.parametrize(
    "ordered",
    [
        ["January", "February", "April", "December"],
        ["Jan", "Feb", "Mär", "Dez"],
        ["Monday", "Tuesday", "Sunday", "unknown"],
        ["XS", "S", "M", "L", "XL"],
        ["low", "medium", "high"],
        ["Never", "Rarely", "Often"],
        ["strongly disagree", "disagree", "neutral", "agree", "strongly agree"],
        ["1", "2", "10", "N"],
        ["-5", "-1", "0.5", "3"],
        ["under 18", "18-24", "25-64", "65+"],
        ["<=50K", ">50K"],
        ["< 10", "10-19", "20 or more"],
        ["1st-4th", "5th-6th", "9th", "10th", "Bachelors", "Doctorate"],
        ["blue", "Green", "red"],
        ["Female", "Male"],
        ["high", "red"],  # two words in common with no scale but by chance
    ],
)
def test_the_order_of_labels(ordered: list[str]) -> None:
    for given in (sorted(ordered), ordered[::-1]):
        assert in_order(given) == tuple(ordered)


def test_labels_that_only_begin_like_a_scale_are_sorted() -> None:
    assert in_order(["m", "a", "s", "z", "q", "l"]) == ("a", "l", "m", "q", "s", "z")


@pytest.mark.parametrize(
    ("numbers", "whole", "edges"),
    [
        ([0] * 80 + [120, 700, 1_500, 3_000, 8_000, 60_000], True, (0, 1, 100, 500, 1_000, 2_000, 5_000, 100_000)),
        ([-300, -20, 0, 5, 40, 900], True, (-500, -20, 0, 5, 20, 1_000)),
        ([0.01, 0.02, 0.03, 0.04, 9.5], False, (0.01, 0.02, 10)),
    ],
)
def test_edges_on_the_ladder_cover(numbers: list[float], whole: bool, edges: tuple[float, ...]) -> None:
    low, high = Decimal(repr(min(numbers))), Decimal(repr(max(numbers)))
    found = edges_from_rows(low, high, np.array(numbers, float), whole=whole)
    assert found[0] <= min(numbers)
    assert max(numbers) <= found[-1]
    rungs = {0} | {sign * f * 10.0**p for sign in (1, -1) for f in (1, 2, 5) for p in range(-6, 9)}
    assert all(any(abs(edge - rung) < 1e-9 for rung in rungs) for edge in found)
    assert found == pytest.approx(edges)


@pytest.mark.parametrize(
    ("bulk", "far", "whole", "edges"),
    [
        (np.arange(58, 66), [43, 79], True, (20, 58, 59, 60, 61, 62, 63, 64, 65, 100)),
        (np.arange(58, 61), [43, 79], True, (20, 58, 59, 60, 100)),  # no half numbers
        (np.array([100]), [1, 30], True, (0, 20, 40, 60, 80, 100)),  # nearly all are the greatest
        (np.linspace(6.1, 10.4, 50), [0.7, 11.9], False, (0.5, 6, 7, 8, 9, 10, 11, 20)),
        (np.linspace(-33, -27, 50), [-90, 70], False, (-100, -33, -32, -31, -30, -29, -28, -27, 0, 100)),
    ],
)
def test_numbers_close_together_are_told_apart(
    bulk: np.ndarray, far: list[float], whole: bool, edges: tuple[float, ...]
) -> None:
    numbers = np.array([*np.repeat(bulk, 1_000 // len(bulk)), *far], float)
    low, high = (Decimal(repr(float(each))) for each in (numbers.min(), numbers.max()))
    assert edges_from_rows(low, high, numbers, whole=whole) == pytest.approx(edges)


def test_a_bin_with_most_rows_is_crowded() -> None:
    assert is_crowded((0, 10, 20), np.array([1.0] * 76 + [11.0] * 24))
    assert not is_crowded((0, 10, 20), np.array([1.0] * 75 + [11.0] * 25))
    assert not is_crowded((0, 10, 20), np.array([]))


def test_names_of_bins() -> None:
    assert bin_names((0, 1, 2, 10, 20)) == ("0", "1", "2-9", "10-20")
    assert bin_names((-20, -10, 0)) == ("-20 to -11", "-10 to 0")


def test_spellings() -> None:
    labels, groups = grouped({"New  York": 5, "new york": 7, "NEW YORK ": 1, "Bern ": 2})
    assert labels == {"new york": 13, "Bern ": 2}
    assert groups == {"new york": ("NEW YORK ", "New  York")}


def test_words_for_what_is_missing() -> None:
    assert missing_tokens(["NA", "n/a", " - ", "?", "None", "unknown", "0", "  ", "Nan"]) == (
        "  ",
        " - ",
        "?",
        "NA",
        "Nan",
        "n/a",
    )
