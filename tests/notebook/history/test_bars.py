"""Error bars of short histories: against integrals over all that is plausible, by hand, and how often they hold."""

from __future__ import annotations

import math
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest

from crosstally.budget import Noise, NoiseKind
from crosstally.measurements import Measurement
from crosstally.notebook.history import History
from crosstally.notebook.history.plausible import Scale, _unseen
from crosstally.query.linear import Linear, Term
from crosstally.query.queries import Cells, Product
from crosstally.query.question import query_of
from crosstally.schema import Attribute, Schema

BINARY = Schema([Attribute(name, ["0", "1"]) for name in ("a", "b")])
SIZES = (6, 4, 5, 3, 2)
SCHEMA = Schema([Attribute(f"x{i}", [str(v) for v in range(n)]) for i, n in enumerate(SIZES)])
NORMAL, LAPLACE = 1.959964, math.log(20) / math.sqrt(2)


def gaussian(query: Linear | Product, values: object, scale: float) -> Measurement:
    noise = Noise(NoiseKind.GAUSSIAN, scale)
    return Measurement(query, np.asarray(values), variance=noise.variance, noise=noise, origin="x")


@pytest.mark.parametrize("drawn", [501, 530, 600, 800, 960])
def test_one_answer_tells_little_of_how_far_rows_stray(drawn: int) -> None:
    """Of 1000 rows, a = 0 was drawn with noise of 20. What b = 0 may be, by integrals over level and own factor.

    A count of half the cells strays by v/4. The level is log-normal about 300^2 with spread 2, at most 1000^2, and each
    attribute's variance v about it with spread 1.2. With a probability of 0.7 values may dominate, and v is 900^2.
    """
    found = History(BINARY, [gaussian(query_of("a = 0", BINARY), drawn, 20)], total=1000).estimates(
        [query_of(text, BINARY) for text in ("a = 0", "b = 0")]
    )
    levels, own = np.arange(-12, math.log(1 / 0.09), 0.02)[:, None], np.arange(-8, 8, 0.02)
    variances = 300.0**2 * np.exp(levels + own)
    noisy = variances / 4 + 20**2
    density = np.exp(-0.5 * (levels / 2) ** 2 - 0.5 * (own / 1.2) ** 2 - 0.5 * (drawn - 500) ** 2 / noisy) / noisy**0.5
    density /= density.sum()
    level = float((density * np.exp(levels)).sum()) * 300**2
    estimate = 500 + (drawn - 500) * variances / 4 / noisy
    past = float((density * (variances / 4 * 20**2 / noisy + (estimate - found.values[0]) ** 2)).sum())
    mild = level * math.exp(1.2**2 / 2) / 4
    kept = 450**2 / (450**2 + 20**2)
    dominated = kept * 20**2 + (500 + (drawn - 500) * kept - found.values[0]) ** 2
    assert found.std_errors[1] == pytest.approx(math.sqrt(0.3 * mild + 0.7 * 450**2), rel=0.1)
    assert found.std_errors[0] == pytest.approx(math.sqrt(0.3 * past + 0.7 * dominated), rel=0.1)


def test_the_mean_of_a_level() -> None:
    """A log-normal of spread 2 has the mean exp(2) of its middle; cut at the middle, 2 exp(2) times P(Z < -2)."""
    assert Scale(3.0, most=1e9).mean() == pytest.approx(3 * math.exp(2), rel=1e-2)
    assert Scale(1.0, most=1.0).mean() == pytest.approx(2 * math.exp(2) * 0.0227501, rel=3e-2)
    assert Scale(1.0, most=4.0).log_density(4.1) == -math.inf
    assert Scale(1.0, most=9.0).log_density(math.exp(2)) == pytest.approx(-0.5)


def test_sets_that_nobody_asked_about_may_stray_as_far_as_a_level_and_their_own_factor_say() -> None:
    """A factor with a standard deviation of 1.2 in its logarithm has the mean exp(1.44 / 2)."""
    scale = Scale(4.0, most=1e6)
    never = SimpleNamespace(sizes=[1], scale=scale)
    assert _unseen(never, {}, 2) == pytest.approx(scale.mean() * math.exp(0.72))
    assert scale.mean() > 4


def test_the_floor_of_a_bought_prior_moves_no_answer() -> None:
    """5 of 10,000 rows lie far below a hundredth of an even share, 50; the answer is still what was drawn."""
    history = History(BINARY, [gaussian(Cells(("a",)), [9995, 5], 2)])
    found = history.estimates([query_of("a = 1", BINARY), query_of("a = 0", BINARY)])
    assert found.values == pytest.approx([5, 9995])
    assert found.std_errors[0] == pytest.approx(2, rel=0.02)
    assert found.std_errors[1] >= 2


def test_a_number_of_rows_that_is_not_known_is_not_taken_for_small() -> None:
    """Noise of 1000 made the only answer negative: still as many rows as noise may hide are held possible."""
    found = History(BINARY, [gaussian(query_of("a = 0", BINARY), -300, 1000)]).estimates([query_of("a = 0", BINARY)])
    assert 700 < found.std_errors[0] < 1100


def test_laplace_noise_has_longer_tails() -> None:
    """An answer that nothing improves errs as its noise does; one that others replace does not."""
    noise = Noise(NoiseKind.LAPLACE, 2.0)
    queries = [query_of(text, BINARY) for text in ("a = 0", "b = 0")]
    alone = Measurement(queries[0], np.array(700), variance=noise.variance, noise=noise, origin="x")
    better = gaussian(queries[0], 700, 0.5)
    assert History(BINARY, [alone], total=1000).estimates(queries).tails == pytest.approx([1, 0], abs=1e-3)
    assert History(BINARY, [alone, better], total=1000).estimates(queries).tails[0] < 0.05
    assert History(BINARY, [better], total=1000).estimates(queries).tails.tolist() == [0, 0]


class Trial:
    """Rows of three kinds, a few questions about one or two attributes, and their noisy answers; all at random."""

    def __init__(self, seed: int, *, lengths: tuple[int, ...], new: int) -> None:
        rng = np.random.default_rng(seed)
        self.rng, self.rows = rng, 20_000
        kinds = rng.dirichlet(np.ones(3))
        shares = [rng.dirichlet(np.full(n, 0.5), 3) for n in SIZES]
        cells = np.einsum("k,ka,kb,kc,kd,ke->abcde", kinds, *shares)
        self.truth = rng.multinomial(self.rows, cells.ravel() / cells.sum()).reshape(SIZES)
        self.ways = int(rng.integers(1, 3))
        self.kind = str(rng.choice(["ranges", "cells"]))
        number = int(rng.choice(lengths))
        asked = [self._question() for _ in range(number + new)]
        self.true = np.array([truth for _, truth in asked])
        self.queries = [query for query, _ in asked]
        self.number = number
        scale = float(rng.choice([0.001, 0.02, 0.1])) * self.rows
        noise = Noise(NoiseKind.LAPLACE if rng.random() < 0.5 else NoiseKind.GAUSSIAN, scale)
        draw = rng.laplace if noise.kind is NoiseKind.LAPLACE else rng.normal
        self.measurements = [
            Measurement(
                query, np.asarray(round(truth + draw(0, scale))), variance=noise.variance, noise=noise, origin="x"
            )
            for query, truth in asked[:number]
        ]
        self.total = self.rows if rng.random() < 0.5 else None

    def _question(self) -> tuple[Linear, float]:
        where = sorted(self.rng.choice(len(SIZES), self.ways, replace=False).tolist())
        table, factors = self.truth.astype(float), []
        for i in where:
            low, high = np.sort(self.rng.integers(0, SIZES[i], 2))
            chosen = np.arange(SIZES[i])
            inside = (chosen == low) if self.kind == "cells" else (chosen >= low) & (chosen <= high)
            factors.append((f"x{i}", tuple(inside.astype(int).tolist())))
            table = table * inside.reshape([-1 if axis == i else 1 for axis in range(len(SIZES))])
        return Linear((Term(1, tuple(factors)),)), float(table.sum())

    def covered(self) -> tuple[np.ndarray, np.ndarray]:
        """Whether 95% intervals hold the truth: of past questions, and of new ones."""
        found = History(SCHEMA, self.measurements, total=self.total).estimates(self.queries)
        half = found.std_errors * ((1 - found.tails) * NORMAL + found.tails * LAPLACE)
        held = np.abs(found.values - self.true) <= half
        return held[: self.number], held[self.number :]


def trials(number: int, *, first: int, lengths: tuple[int, ...], new: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    return (Trial(first + i, lengths=lengths, new=new).covered() for i in range(number))


def test_bars_of_short_histories_hold() -> None:
    """60 histories of 5 to 20 questions, the same every time. Were variances certain, 84% of new ones would hold."""
    past, new = zip(*trials(60, first=0, lengths=(5, 10, 20), new=20), strict=True)
    assert np.concatenate(past).mean() > 0.93
    assert np.concatenate(new).mean() > 0.93


@pytest.mark.verify
def test_bars_of_short_histories_hold_as_often_as_they_say() -> None:
    """One past and one new question in each of 1200 independent histories of 5 to 40 questions.

    If 95% intervals hold 94% of the time, 1085 or fewer of 1200 are seen with probability below 1e-6, past and new
    each. With the variances of the best fit taken as certain, intervals of new questions hold 81% to 88%: 1085 then
    never are.
    """
    past, new = zip(*trials(1200, first=10_000, lengths=(5, 10, 20, 40), new=1), strict=True)
    assert sum(bool(held[0]) for held in past) > 1085
    assert sum(bool(held[0]) for held in new) > 1085
