"""What the queries of one release must have in common along each attribute: one grouping, and few ways to measure it.

One attribute has one grouping in a release. Its table by itself may be measured in full; every table over more
attributes that holds it counts groups. Attributes that all queries measure by one matrix, or by values and contrasts,
have one basis, in which least squares is an average (``residuals.axes``); those of several matrices are solved together
(``residuals.mixed``), and no table may hold two of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter

from crosstally.errors import PlanError
from crosstally.query.operators import GroupMaps, Matrices, Matrix
from crosstally.query.queries import Query

__all__ = ["given_matrices", "group_maps_of", "matrices_of", "mixed_of", "ways_of"]

_IS_PRODUCT = attrgetter("is_product")


def group_maps_of(queries: Iterable[Query]) -> GroupMaps:
    """The groups that some queries have together.

    Raises:
        PlanError: An attribute has two groupings, or a table of several attributes holds it in full beside others
            that count its groups.
    """
    asked = list(queries)
    maps: dict[str, tuple[int, ...]] = {}
    for query in asked:
        for name, groups in query.groups:
            if maps.setdefault(name, groups) is not groups and maps[name] != groups:
                raise PlanError(f"the values of {name!r} must have the same groups in every table of a release")
    for query in asked if maps else ():
        if len(query.attributes) > 1 and query.is_product and not query.matrices:
            full = next((name for name in query.attributes if name in maps and name not in dict(query.groups)), None)
            if full is not None:
                raise PlanError(
                    f"the table of {' x '.join(query.attributes)} must count the groups of {full!r}, as others do: "
                    "only its table by itself may be in full"
                )
    return tuple(sorted(maps.items()))


def matrices_of(queries: Iterable[Query]) -> Matrices:
    """The matrices of attributes that all queries measure in the same way; those of ``mixed_of`` are not among them.

    Raises:
        PlanError: Some attribute has a matrix and values are in groups somewhere: coefficients would not be
            independent.
    """
    asked = list(queries)
    found = ways_of(asked)
    if found and any(query.groups for query in asked):
        raise PlanError("a release with linear strategies cannot count values in groups")
    return tuple((name, matrix) for name, ways in found.items() if len(ways) == 1 for matrix in given_matrices(ways))


def mixed_of(queries: Iterable[Query]) -> Mapping[str, tuple[Matrix, ...]]:
    """For each attribute that is measured in more than one way its matrices, in the order of the queries.

    Two matrices are two ways, and so are a matrix here and cells or contrasts there. ``residuals.mixed`` combines them.

    Raises:
        PlanError: A query holds two such attributes.
    """
    asked = list(filter(_IS_PRODUCT, queries))
    found = {name: given_matrices(ways) for name, ways in ways_of(asked).items() if len(ways) > 1}
    for query in asked if found else ():
        both = [name for name in query.attributes if name in found]
        if len(both) > 1:
            raise PlanError(
                f"{both[0]!r} and {both[1]!r} are each measured in more than one way, so no table may hold both; "
                f"{' x '.join(query.attributes)} does"
            )
    return found


def given_matrices(ways: Iterable[Matrix | None]) -> tuple[Matrix, ...]:
    """The matrices among some ways."""
    return tuple(way for way in ways if way is not None)


def ways_of(queries: Sequence[Query]) -> dict[str, dict[Matrix | None, None]]:
    """For each attribute, by name, that has a matrix somewhere its ways: matrices, None for cells and contrasts."""
    names = {name for query in queries for name, _ in query.matrices}
    out: dict[str, dict[Matrix | None, None]] = {name: {} for name in sorted(names)}
    for query in filter(_IS_PRODUCT, queries if out else ()):
        own = dict(query.matrices)
        for name in out.keys() & set(query.attributes):
            out[name][own.get(name)] = None
    return out
