"""Methods: who is asked what. Each gives the groups of a protocol.

==============  ======================================================================================
``full``        one group, the table of all attributes (FC in the CALM paper; beyond 4,096 cells by Hadamard response,
                since the hashes of OLH would not fit into memory)
``marginals``   a group for every table over ``ways`` attributes (AM)
``fourier``     a group for every residual of up to ``ways`` attributes, all alike (FT)
``each``        every attribute with a part of epsilon (EM)
``calm``        views that hold every one, two or three attributes together, by a threshold on noise: CALM's rule as
                best known, from memory of the paper, of which only an excerpt was at hand
``balanced``    such views by a rule of our own: noise, sampling and reconstruction together the least
``residuals``   residuals of few attributes, more people for those that matter more
``views``       views as ``balanced`` chooses them, of pairs at least, perturbed by the best oracle there is
``auto``        ``residuals``, or ``views`` where they are predicted to be clearly better
==============  ======================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product

from crosstally.errors import PlanError, did_you_mean
from crosstally.local.oracles import best_oracle
from crosstally.local.oracles.hadamard_response import HadamardResponse, ResidualBit
from crosstally.local.oracles.local_hashing import LocalHashing
from crosstally.local.oracles.randomised_response import RandomisedResponse
from crosstally.local.oracles.unary_encoding import UnaryEncoding
from crosstally.local.planning.report_groups import (
    Group,
    each_group,
    error_of,
    measured_sets,
    predicted_error,
    residual_groups,
    unmeasured_error,
    view_groups,
)

PAPER_KINDS = (RandomisedResponse.kind, UnaryEncoding.kind, LocalHashing.kind)
SHRUNK = ("residuals", "views")
"""The methods whose releases are shrunk unless somebody says otherwise; the papers' are released as the papers do."""

_MOST_GROUPS = 50_000  # a limit: a device reads all groups of a protocol. More are refused
# Cells of views to try, as far as a cover allows: those that reports can tell apart. Chosen in doublings, then fours.
_VIEW_CELLS = (4, 8, 16, 32, 64, 256)
# A view of more cells is tried only where no smaller one covers: reports say next to nothing about each cell.
_MOST_CELLS = 4096
_QUICK_SETS = 5_000  # of three attributes: all of 32 attributes, whose designs are made in a second or two
_NEXT_TO_NOTHING = 0.01  # of the predicted error, which is known no better than to a third
_CALM_NOISE = 0.001  # from memory of the CALM paper, unverified; more noise is allowed to nobody, whatever it would buy
# Shares of people to try are multiples of one over this number. Chosen: the predicted error is not known more precisely
# (above).
_STEPS = 20
# Least steps for single attributes and for pairs: with two values, and with more. See ``_grid`` for what was seen on
# generated rows.
_LEAST_BINARY, _LEAST_STEPS = (2, 12), (4, 6)
_CLEARLY = 0.9
"""Views are taken where they are predicted to be so much better: on generated rows residuals come out about a tenth
better, compared with views, than they are predicted."""

GroupDesign = Callable[[Sequence[int], Fraction, int, int], tuple[Group, ...]]
ViewSets = tuple[tuple[int, ...], ...]


def groups_of(
    method: str, sizes: Sequence[int], *, epsilon: Fraction, people: int, ways: int
) -> tuple[str, tuple[Group, ...]]:
    """The groups of a method, and its name; ``auto`` becomes the method that it chooses."""
    if method == "auto":
        made = {name: METHODS[name](sizes, epsilon, people, ways) for name in ("residuals", "views")}
        error = {k: predicted_error(sizes, v, people=people, ways=ways, shrunk=True) for k, v in made.items()}
        chosen = "views" if error["views"] < _CLEARLY * error["residuals"] else "residuals"
        return chosen, made[chosen]
    if method not in METHODS:
        raise PlanError(f"unknown method {method!r}{did_you_mean(str(method), ['auto', *METHODS])}")
    return method, METHODS[method](sizes, epsilon, people, ways)


def _full(sizes: Sequence[int], epsilon: Fraction, people: int, ways: int) -> tuple[Group, ...]:  # noqa: ARG001
    kinds = PAPER_KINDS if math.prod(sizes) <= LocalHashing.most_cells else (HadamardResponse.kind,)
    return view_groups(sizes, [range(len(sizes))], epsilon, kinds)


def _marginals(sizes: Sequence[int], epsilon: Fraction, people: int, ways: int) -> tuple[Group, ...]:  # noqa: ARG001
    _check_number(math.comb(len(sizes), ways))
    return view_groups(sizes, combinations(range(len(sizes)), ways), epsilon, PAPER_KINDS)


def _fourier(sizes: Sequence[int], epsilon: Fraction, people: int, ways: int) -> tuple[Group, ...]:  # noqa: ARG001
    sets = [one for order in range(1, ways + 1) for one in combinations(range(len(sizes)), order)]
    _check_number(len(sets))
    return tuple(Group(one, oracle=ResidualBit.of(tuple(sizes[i] for i in one), epsilon), share=1) for one in sets)


def _each(sizes: Sequence[int], epsilon: Fraction, people: int, ways: int) -> tuple[Group, ...]:  # noqa: ARG001
    return each_group(sizes, epsilon)


def _check_number(groups: int) -> None:
    if groups > _MOST_GROUPS:
        raise PlanError(f"a protocol must have at most {_MOST_GROUPS:,} groups, got {groups:,}; ask for fewer ways")


# Views


def view_candidates(sizes: Sequence[int], ways: int, *, least_cover: int = 1) -> Iterator[ViewSets]:
    """Sets of views that hold every one, two, ... attributes together, from small views to large ones."""
    for cover in range(least_cover, _most_cover(sizes, ways) + 1):
        yield from _views_that_cover(sizes, cover)


def _most_cover(sizes: Sequence[int], ways: int) -> int:
    """How many attributes views hold together at most: three, where there are not too many sets of three."""
    most = min(3, ways, len(sizes))
    return most if math.comb(len(sizes), most) <= _MOST_GROUPS else 2


def _views_that_cover(sizes: Sequence[int], cover: int) -> Iterator[ViewSets]:
    least = math.prod(sorted(sizes)[-cover:])
    seen: set[ViewSets] = {()}
    for cells in sorted({max(cells, least) for cells in _VIEW_CELLS}):
        if cells <= max(_MOST_CELLS, least):
            views = _covering(sizes, cells, cover)
            if views not in seen and len(views) <= _MOST_GROUPS:
                seen.add(views)
                yield views


def _covering(sizes: Sequence[int], cells: int, cover: int) -> ViewSets:
    """Views of so many cells that hold so many attributes together; none where too many of them would be needed."""
    from crosstally.designs import covering_views

    try:
        return covering_views(sizes, cells, cover)
    except PlanError:
        return ()


def calm_views(sizes: Sequence[int], *, epsilon: Fraction, people: int, ways: int) -> ViewSets:
    """The views of CALM's rule as best known: the largest cover whose noise stays below a threshold.

    For each number of attributes that are to be held together, the design of least noise; the largest number whose
    noise is at most ``_CALM_NOISE``, or one.
    """
    found: ViewSets = ()
    for cover in range(1, _most_cover(sizes, ways) + 1):
        designs = list(_views_that_cover(sizes, cover))
        noise = {views: calm_noise(sizes, views, epsilon, people) for views in designs}
        if found and min(noise.values(), default=math.inf) > _CALM_NOISE:
            break
        found = min(designs, key=noise.__getitem__)
    return found


def calm_noise(sizes: Sequence[int], views: ViewSets, epsilon: Fraction, people: int) -> float:
    """The noise error of views: the expected SSE of a table that one of them holds, in frequencies, rare cells assumed.

    A view of c cells has the reports of n / m people; the noise of all its cells adds up to c (m / n) times the
    variance of one from one report. For m views of l binary attributes that is m 2^l Var0 (CALM, 4.1).
    """
    oracles = [best_oracle(tuple(sizes[i] for i in view), epsilon, PAPER_KINDS) for view in views]
    each = [oracle.cells * oracle.cell_variance(0.0) for oracle in oracles]
    return sum(each) / people  # the mean over views of c, times their number


def balanced_views(sizes: Sequence[int], *, epsilon: Fraction, people: int, ways: int) -> ViewSets:
    """The views of our own rule: noise, sampling and reconstruction together the least."""
    return _least_error(sizes, (epsilon, people, ways), least_cover=1, kinds=PAPER_KINDS, shrunk=False)


def _least_error(
    sizes: Sequence[int],
    asked: tuple[Fraction, int, int],
    *,
    least_cover: int,
    kinds: tuple[str, ...],
    shrunk: bool,
) -> ViewSets:
    """The views of least predicted error.

    Designs that hold three attributes together take long to make where attributes are many. What they save is at most
    what three attributes add when nobody is asked about them; where that is next to nothing they are not made.
    """
    epsilon, people, ways = asked
    errors: dict[ViewSets, float] = {}
    for cover in range(least_cover, _most_cover(sizes, ways) + 1):
        many = math.comb(len(sizes), cover) > _QUICK_SETS
        if many and errors and unmeasured_error(sizes, cover, ways) < _NEXT_TO_NOTHING * min(errors.values()):
            break
        for views in _views_that_cover(sizes, cover):
            groups = view_groups(sizes, views, epsilon, kinds)
            errors[views] = predicted_error(sizes, groups, people=people, ways=ways, shrunk=shrunk)
    return min(errors, key=errors.__getitem__)


def _calm(sizes: Sequence[int], epsilon: Fraction, people: int, ways: int) -> tuple[Group, ...]:
    views = calm_views(sizes, epsilon=epsilon, people=people, ways=ways)
    return view_groups(sizes, views, epsilon, PAPER_KINDS)


def _balanced(sizes: Sequence[int], epsilon: Fraction, people: int, ways: int) -> tuple[Group, ...]:
    views = balanced_views(sizes, epsilon=epsilon, people=people, ways=ways)
    return view_groups(sizes, views, epsilon, PAPER_KINDS)


def _views(sizes: Sequence[int], epsilon: Fraction, people: int, ways: int) -> tuple[Group, ...]:
    least_cover = min(2, ways, len(sizes))
    views = _least_error(sizes, (epsilon, people, ways), least_cover=least_cover, kinds=(), shrunk=True)
    return view_groups(sizes, views, epsilon)


# Residuals


def _residuals(sizes: Sequence[int], epsilon: Fraction, people: int, ways: int) -> tuple[Group, ...]:
    """Shares for one, two and three attributes, the best ones on a grid."""
    orders = [k for k in range(1, min(3, ways) + 1) if math.comb(len(sizes), k) <= _MOST_GROUPS]
    alone = {}
    for order in orders:
        groups = residual_groups(sizes, [float(k == order) for k in orders], epsilon, ways)
        alone[order] = measured_sets(sizes, groups, people, order, ways)

    def error(shares: Sequence[float]) -> float:
        given = {
            order: replace(all_people, precision=share * all_people.precision)
            for (order, all_people), share in zip(alone.items(), shares, strict=True)
            if share > 0
        }
        return error_of(sizes, given, ways=ways, shrunk=True)

    least = _LEAST_BINARY if set(sizes) == {2} else _LEAST_STEPS
    return residual_groups(sizes, min(_grid(len(orders), least), key=error), epsilon, ways)


def _grid(orders: int, least: Sequence[int]) -> Iterator[tuple[float, ...]]:
    """Shares that add up to one, in steps; many people are always asked about pairs.

    Pairs that turn out to be noise are shrunk away, those that matter are found, and all tell frequencies as well
    (``posterior``). On generated binary rows from 55 to 85 of a hundred people for pairs are best at any epsilon, on
    generated people with more values from 20 to 60.
    """
    for parts in product(range(_STEPS + 1), repeat=orders):
        if sum(parts) == _STEPS and all(part >= few for part, few in zip(parts, least, strict=False)):
            yield tuple(part / _STEPS for part in parts)


METHODS: Mapping[str, GroupDesign] = {
    "full": _full,
    "marginals": _marginals,
    "fourier": _fourier,
    "each": _each,
    "calm": _calm,
    "balanced": _balanced,
    "residuals": _residuals,
    "views": _views,
}
