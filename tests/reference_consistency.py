"""PriView's consistency step as section 4.4 describes it, cell by cell; nothing of crosstally is imported here."""

from __future__ import annotations

from itertools import product

Cell = tuple[int, ...]
Table = dict[Cell, float]
"""A count for each combination of values, in the order of the view's attributes."""


def intersections(views: list[tuple[str, ...]]) -> list[frozenset[str]]:
    """All sets that are the intersection of some of the views, smallest first, which is a topological order."""
    found = {frozenset(view) for view in views} | {frozenset()}
    while True:
        more = {first & second for first in found for second in found} - found
        if not more:
            return sorted(found, key=lambda attributes: (len(attributes), sorted(attributes)))
        found |= more


def restricted(cell: Cell, view: tuple[str, ...], attributes: frozenset[str]) -> Cell:
    """The values of a cell for some attributes, in the order of their names."""
    return tuple(value for _, value in sorted(zip(view, cell, strict=True)) if _ in attributes)


def projected(table: Table, view: tuple[str, ...], attributes: frozenset[str]) -> Table:
    """The marginal of a view over some of its attributes."""
    sums: Table = {}
    for cell, count in table.items():
        place = restricted(cell, view, attributes)
        sums[place] = sums.get(place, 0.0) + count
    return sums


def make_agree(views: list[tuple[str, ...]], tables: list[Table], attributes: frozenset[str]) -> None:
    """Mutual consistency: give all views that hold some attributes the mean of their marginals over them."""
    holders = [i for i, view in enumerate(views) if attributes <= set(view)]
    marginals = {i: projected(tables[i], views[i], attributes) for i in holders}
    best = {place: sum(marginals[i][place] for i in holders) / len(holders) for place in marginals[holders[0]]}
    for i in holders:
        shared = len(tables[i]) / len(best)  # how many cells of the view one cell of the marginal is made of
        for cell in tables[i]:
            place = restricted(cell, views[i], attributes)
            tables[i][cell] += (best[place] - marginals[i][place]) / shared


def overall_consistency(views: list[tuple[str, ...]], tables: list[Table]) -> list[Table]:
    """The tables made consistent on every intersection of views, in topological order, the empty set first."""
    out = [dict(table) for table in tables]
    for attributes in intersections(views):
        make_agree(views, out, attributes)
    return out


def disagreement(views: list[tuple[str, ...]], tables: list[Table]) -> float:
    """The largest difference between two views' marginals over what they share, relative to their largest cell."""
    largest = 0.0
    for i, first in enumerate(views):
        for j in range(i):
            shared = frozenset(first) & frozenset(views[j])
            one, other = projected(tables[i], first, shared), projected(tables[j], views[j], shared)
            largest = max([largest, *(abs(one[place] - other[place]) for place in one)])
    return largest


def cells(sizes: tuple[int, ...]) -> list[Cell]:
    """All combinations of values, the last attribute fastest."""
    return list(product(*(range(n) for n in sizes)))
