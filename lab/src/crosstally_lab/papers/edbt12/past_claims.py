"""What EDBT 2012 says of its figures 2 to 5, and what we say beside it, held against a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from crosstally.typing import Floats
from crosstally_lab.papers.edbt12.trials import BOUGHT, ENTROPY, KERNEL, RANGES, UNIFORM, Curve
from crosstally_lab.papers.metrics import (
    VERDICT_LEVEL,
    above,
    below,
    decided,
    mean_interval,
    ratio_interval,
    ratio_words,
    within,
)
from crosstally_lab.papers.outcomes import Claim, Value

Setting = tuple[int, float, str, str]
"""The number of queries, the scale of the noise, the method and the prior."""

# What the paper's words are taken to mean, in ratios of errors: a significant boost, as good as the best, vanishes.
_BOOST, _AS_GOOD, _VANISHES = 0.9, 1.05, 0.95


def _best(curve: Curve) -> Floats:
    """The errors of past queries at the alpha that is best for them, one for each draw."""
    return np.asarray(curve.past[:, curve.best(curve.past)])


def alpha_claims(kind: str, curves: Mapping[tuple[str, str], Curve]) -> Iterator[Claim]:
    """What the paper says of figure 2."""
    boosts = {}
    for method in (KERNEL, ENTROPY):
        boosts[method] = ratio_interval(_best(curves[method, BOUGHT]), _best(curves[method, UNIFORM]))
        yield Claim(
            f"the prior gives a significant boost ({_BOOST} x) to {method}, at its best alpha (past {kind})",
            of="paper",
            holds=within([boosts[method]], high=_BOOST),
            figure=ratio_words(boosts[method]),
        )
    kernel, entropy = boosts[KERNEL], boosts[ENTROPY]
    yield Claim(
        f"the boost is larger for kernel PCA than for maximum entropy (past {kind})",
        of="paper",
        holds=decided(holds=kernel.high < entropy.low, fails=kernel.low >= entropy.high),
        figure=f"{ratio_words(kernel)} and {ratio_words(entropy)}",
    )
    last = ratio_interval(*(curves[KERNEL, prior].past[:, -1] for prior in (BOUGHT, UNIFORM)))
    yield Claim(
        f"the effect of the prior on kernel PCA vanishes (above {_VANISHES} x) when alpha grows (past {kind})",
        of="paper",
        holds=within([last], low=_VANISHES),
        figure=f"{ratio_words(last)} at the largest alpha",
    )
    small = [ratio_interval(curve.past[:, 0], _best(curve)) for curve in curves.values()]
    yield Claim(
        f"with too small an alpha the error grows again, for both methods and priors (past {kind})",
        of="paper",
        # where the least error is at the smallest alpha tried, nothing is known of smaller ones
        holds=decided(holds=all(each.low > 1 for each in small), fails=False),
        figure="; ".join(map(ratio_words, small)),
    )


def default_claims(
    kind: str, ours: Sequence[Mapping[str, Value]], curves: Mapping[tuple[str, str], Curve], raw: Floats
) -> Iterator[Claim]:
    """What we say of the default: an estimate as a notebook has it."""
    found = {name: np.array([float(row[name] or 0) for row in ours]) for name in ("RMSE past", "coverage")}
    ratio = ratio_interval(found["RMSE past"], _best(curves[KERNEL, BOUGHT]))
    yield Claim(
        f"the default has at most 0.85 x the RMSE of the best single alpha, chosen on the truth (past {kind})",
        of="crosstally",
        holds=within([ratio], high=0.85),
        figure=f"{ratio_words(ratio)}; raw answers {raw.mean():,.0f}",
    )
    if kind == RANGES:
        inside = mean_interval(found["coverage"], level=VERDICT_LEVEL)
        wide = np.array([float(row["width of oracle's"] or 0) for row in ours])
        width = mean_interval(wide, level=VERDICT_LEVEL)
        yield Claim(
            "95% error bars of new queries cover 92% to 98%, their mean width at most 1.5 x the oracle's",
            of="crosstally",
            holds=decided(
                holds=inside.low >= 0.92 and inside.high <= 0.98 and width.high <= 1.5,
                fails=inside.high < 0.92 or inside.low > 0.98 or width.low > 1.5,
            ),
            figure=f"{inside.estimate:.1%} ({inside.low:.1%} to {inside.high:.1%}), {ratio_words(width)}",
        )


def validation_claims(method: str, prior: str, curve: Curve, validated: Floats) -> Iterator[Claim]:
    """What the paper says of figure 3."""
    chosen, best = curve.best(validated), curve.best(curve.new)
    ratio = ratio_interval(curve.new[:, chosen], curve.new[:, best])
    yield Claim(
        f"the alpha that cross-validation chooses is as good as the best one, to 5% ({method}, {prior} prior)",
        of="paper",
        holds=within([ratio], high=_AS_GOOD),
        figure=ratio_words(ratio),
    )
    least = np.finfo(np.float64).tiny
    over = ratio_interval(np.maximum(validated[:, best], least), curve.new[:, best])
    yield Claim(
        f"cross-validation overestimates the error, at the best alpha ({method}, {prior} prior)",
        of="paper",
        holds=above([over], 1),
        figure=ratio_words(over),
    )


def setting_claims(curves: Mapping[Setting, Curve]) -> Iterator[Claim]:
    """What the paper says of figure 4."""
    cases = list(dict.fromkeys((number, scale) for number, scale, *_ in curves))
    ratios = []
    for case in cases:
        entropy, kernel = (_best(curves[(*case, method, BOUGHT)]) for method in (ENTROPY, KERNEL))
        ratios.append(ratio_interval(entropy, kernel[: len(entropy)]))
    lower = sum(each.high < 1 for each in ratios)
    higher = sum(each.low >= 1 for each in ratios)
    yield Claim(
        "maximum entropy often (in most settings) has a lower RMSE than kernel PCA, both with the prior and their best "
        "alpha",
        of="paper",
        holds=decided(holds=2 * lower > len(ratios), fails=2 * higher >= len(ratios)),
        figure=f"certain in {lower} of {len(ratios)}: " + "; ".join(map(ratio_words, ratios)),
    )
    boosts = [ratio_interval(*(_best(curves[(*case, KERNEL, prior)]) for prior in (BOUGHT, UNIFORM))) for case in cases]
    yield Claim(
        "with the best alpha the prior lowers the error of kernel PCA for every number of queries and every noise",
        of="crosstally",
        holds=below(boosts, 1),
        figure="; ".join(map(ratio_words, boosts)),
    )


def time_claims(rows: Sequence[Mapping[str, Value]], *, whole: bool) -> Iterator[Claim]:
    """What is said of figure 5. Seconds have no interval: the best of three runs is taken.

    The dense path is cubic: with fewer queries, as in a quick run, it is not so slow.
    """
    gap = max(float(row["gap"] or 0) for row in rows)
    yield Claim("the fast path gives the same estimates", of="crosstally", holds=gap <= 1e-8, figure=f"{gap:.1e}")
    growth = [float(rows[-1][name] or 0) / float(rows[0][name] or 1) for name in (KERNEL, ENTROPY)]
    more = float(rows[-1]["queries"] or 0) / float(rows[0]["queries"] or 1)
    yield Claim(
        "the cost of kernel PCA grows faster than the number of queries, and faster than that of maximum entropy",
        of="paper",
        holds=growth[0] > max(more, growth[1]),
        figure=f"{growth[0]:.0f} x and {growth[1]:.1f} x for {more:.0f} x the queries (no interval)",
    )
    if whole:
        yield Claim(
            f"the fast path needs at most a fortieth of the time at {rows[-1]['queries']:,} queries",
            of="crosstally",
            holds=float(rows[-1]["ratio"] or 0) >= 40,
            figure=f"{rows[-1]['ratio']:.0f} x (no interval)",
        )
