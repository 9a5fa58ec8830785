"""Which method answers new questions, and which alpha rows are made with: judged by answers that were left out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from crosstally.budget import Noise, NoiseKind
from crosstally.measurements import Measurement
from crosstally.notebook.history.better import BetterOfBoth
from crosstally.notebook.history.constraints import problem
from crosstally.notebook.history.held_out import best_of, held_out, share_of, squared_error
from crosstally.notebook.history.record import Estimates, History
from crosstally.notebook.history.synthetic_rows import synthesize
from crosstally.notebook.results import Answer
from crosstally.query.linear import Linear, Term
from crosstally.schema import Attribute, Schema

SIZES = (12, 8, 6)
SCHEMA = Schema([Attribute(name, [str(v) for v in range(n)]) for name, n in zip("abc", SIZES, strict=True)])
NOISE = Noise(NoiseKind.LAPLACE, 40.0)
ROWS = 20_000


def ranges(number: int, rng: np.random.Generator) -> list[Linear]:
    """Ranges of two attributes each."""
    out = []
    for _ in range(number):
        factors = []
        for i in sorted(rng.choice(3, 2, replace=False).tolist()):
            low, high = np.sort(rng.integers(0, SIZES[i], 2))
            factors.append(("abc"[i], tuple(int(low <= v <= high) for v in range(SIZES[i]))))
        out.append(Linear((Term(1, tuple(factors)),)))
    return out


def people(rng: np.random.Generator) -> np.ndarray:
    """Rows of which most have the first values: what a normal law of cells does not expect."""
    return np.stack([np.minimum(rng.geometric(0.6, ROWS) - 1, n - 1) for n in SIZES])


def truths(queries: list[Linear], codes: np.ndarray) -> np.ndarray:
    found = []
    for query in queries:
        inside = np.ones(codes.shape[1], bool)
        for name, weights in query.terms[0].factors:
            inside &= np.array(weights, bool)[codes["abc".index(name)]]
        found.append(inside.sum())
    return np.array(found, float)


def answered(queries: list[Linear], truth: np.ndarray, rng: np.random.Generator) -> list[Measurement]:
    drawn = truth + np.round(rng.laplace(0, NOISE.scale, len(truth)))
    return [
        Measurement(query, np.array(value), variance=NOISE.variance, noise=NOISE, origin="x")
        for query, value in zip(queries, drawn, strict=True)
    ]


def held(found: Estimates, true: np.ndarray) -> float:
    """The share of 95% intervals that hold."""
    ends = [
        Answer("x", value, std_error=error, tails=tails, student=student).interval(0.95)
        for value, error, tails, student in zip(found.values, found.std_errors, found.tails, found.student, strict=True)
    ]
    return float(np.mean([low <= each <= high for (low, high), each in zip(ends, true, strict=True)]))


def rms(gaps: np.ndarray) -> float:
    return float(np.sqrt(np.mean(gaps**2)))


@pytest.fixture(scope="module")
def history() -> tuple[list[Linear], np.ndarray, list[Measurement], np.ndarray]:
    rng = np.random.default_rng(3)
    codes = people(rng)
    past = ranges(120, rng)
    truth = truths(past, codes)
    return past, truth, answered(past, truth, rng), codes


def test_new_questions_are_about_as_good_as_with_the_better_method(history) -> None:
    """The mixture may lose to the better method by what the answers left out do not tell: 5%, as is promised."""
    past, truth, measured, codes = history
    new = ranges(300, np.random.default_rng(4))
    true = truths(new, codes)
    both = BetterOfBoth(SCHEMA, measured, total=ROWS)
    found, kernel = both.estimates(new), History(SCHEMA, measured, total=ROWS).estimates(new)
    rows = synthesize(SCHEMA, measured, total=ROWS, random=np.random.default_rng(1)).codes.T
    entropy = truths(new, rows)
    assert rms(found.values - true) <= 1.05 * min(rms(kernel.values - true), rms(entropy - true))
    assert rms(entropy - true) < 0.8 * rms(kernel.values - true)  # here maximum entropy is the better one
    assert held(found, true) > 0.92
    assert held(replace(found, std_errors=found.std_errors / 2), true) < 0.92
    assert np.median(found.std_errors / kernel.std_errors) < 0.3  # attributes are independent, which it does not know
    raw = rms(np.array([float(m.values) for m in measured]) - truth)
    assert rms(truths(past, rows) - truth) <= raw
    asked = both.estimates(past)  # they have answers of their own, and stay with the kernel
    assert asked.values == pytest.approx(History(SCHEMA, measured, total=ROWS).estimates(past).values)
    assert rms(asked.values - truth) <= raw
    assert not asked.student.any()


def test_an_attribute_that_nobody_asked_about_has_at_least_the_error_of_the_kernel(history) -> None:
    """Ranges of a and b only: no answer left out tells how far c differs from the prior."""
    rng = np.random.default_rng(7)
    codes = people(rng)
    past = [query for query in ranges(150, rng) if "c" not in query.attributes]
    both = BetterOfBoth(SCHEMA, answered(past, truths(past, codes), rng), total=ROWS)
    strange = Linear((Term(1, (("c", (1, 0, 0, 0, 0, 0)),)),))
    new = [strange, *(query for query in ranges(20, rng) if query.attributes == ("a", "b") and query not in past)]
    found, kernel = both.estimates(new), both.kernel.estimates(new)
    assert found.std_errors[0] >= 0.999 * kernel.std_errors[0]
    assert np.median(found.std_errors[1:] / kernel.std_errors[1:]) < 0.7
    assert (found.student[1:] > 0.5).any()
    again = BetterOfBoth(SCHEMA, both.kernel.linear, total=ROWS).estimates(new)
    assert again.std_errors.tolist() == found.std_errors.tolist()  # the same measurements give the same intervals


def test_few_answers_and_pair_tables_stay_with_the_kernel(history) -> None:
    _, _, measured, _ = history
    new = ranges(5, np.random.default_rng(4))
    few = measured[:9]
    assert BetterOfBoth(SCHEMA, few, total=ROWS).estimates(new).values == pytest.approx(
        History(SCHEMA, few, total=ROWS).estimates(new).values
    )


def test_errors_of_answers_left_out_are_those_of_new_questions(history) -> None:
    """120 answers left out in five folds, against 300 new questions: within a factor of two; the least alpha is not."""
    _, _, measured, codes = history
    posed = problem(SCHEMA, measured, total=ROWS, alpha=1.0)
    found = held_out(posed, np.arange(120) % 5, random=np.random.default_rng(0))
    new = ranges(300, np.random.default_rng(5))
    rows = synthesize(SCHEMA, measured, total=ROWS, alpha=found.alpha, random=np.random.default_rng(1)).codes.T
    true = rms(truths(new, rows) - truths(new, codes))
    assert 0.5 < np.sqrt(found.new[found.best]) / true < 2
    assert np.sqrt(found.new[0]) / true > 3
    assert found.past[found.best] < 1.5
    assert found.new[found.best] <= 1.07 * found.new.min()


def test_the_noise_of_answers_is_taken_off_and_pulls_no_share() -> None:
    """By hand: squared distances 9 and 1 less a variance of 4; the share that halves the way to the other estimate."""
    answers, estimates = np.array([3.0, 1.0]), np.zeros(2)
    assert squared_error(answers, estimates, np.full(2, 4.0)) == pytest.approx(1.0)
    assert squared_error(np.array([3.0, 7.0]), estimates, np.array([4.0, np.inf])) == pytest.approx(5.0)
    assert share_of(np.array([6.0, 2.0]), answers, estimates, np.ones(2)) == pytest.approx(0.5)
    assert share_of(estimates, answers, estimates, np.ones(2)) == 0.0
    assert share_of(-answers, answers, estimates, np.ones(2)) == 0.0


def test_estimated_errors_below_their_own_noise_are_alike() -> None:
    """20 answers of variance 4: the estimate has the standard error sqrt(5 x 16 / 20) = 2, and less counts as 2.

    Then past questions decide; an error of 900 is out of question, and so is 2.2, whose root is 4.9% above that of 2.
    """
    past, noise = np.array([2.0, 1.0, 0.5]), np.full(20, 4.0)
    assert best_of(np.array([-3.0, 0.5, 900.0]), past, noise) == 1
    assert best_of(np.array([-3.0, 2.2, 900.0]), past, noise) == 0
    assert best_of(np.array([-3.0, 0.5, 900.0]), past, np.array([*noise, np.inf])) == 1


def test_estimates_of_answers_left_out_do_not_know_them(history) -> None:
    """The first fold is answered with half of its numbers: its estimates stay, those of other folds move."""
    _, _, measured, _ = history
    folds = np.arange(len(measured)) % 5
    other = [replace(m, values=m.values / 2) if fold == 0 else m for m, fold in zip(measured, folds, strict=True)]
    before, after = (History(SCHEMA, each, total=ROWS).left_out(folds) for each in (measured, other))
    assert after[folds == 0] == pytest.approx(before[folds == 0], rel=1e-9, abs=1e-6)
    assert rms(after[folds != 0] - before[folds != 0]) > 100
