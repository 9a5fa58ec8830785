"""How the queries of a release measure each attribute: its values, groups of them, by one matrix, or by several.

Attributes that all queries measure by one matrix, or by values and contrasts, have one basis, in which least squares is
an average (``residuals.axes``); those of several matrices are solved together (``residuals.mixed``).

One attribute has one grouping in a release. Its table by itself may be measured in full; every table over more
attributes that holds it counts groups. So the attribute stands for two: one whose values are the groups, which the
larger tables are about, and one with all its values, which is in no table but its own. ``Groups.extended`` is the
schema with both. In it every measurement is one of plain cells or a contrast, and everything linear, the correction of
negative cells and reconstruction work as for any schema. What the two say about each other is put together in
``residuals.nested``; ``answers`` spread cells of groups over their values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from crosstally.errors import PlanError
from crosstally.query.operators import GroupMaps, Matrices, Matrix
from crosstally.query.queries import Cells, Product, Query
from crosstally.schema import DerivedSchema, Impossible, PublicCounts, Schema

_IS_PRODUCT, _MATRICES = attrgetter("is_product"), attrgetter("matrices")


@dataclass(frozen=True)
class Groups:
    """The groups of a release: for each attribute that has any, the group of each of its values."""

    schema: Schema
    maps: GroupMaps

    @classmethod
    def of(cls, schema: Schema, queries: Iterable[Query]) -> Groups | None:
        """The groups that some queries have together; None where there are none.

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
        if not maps:
            return None
        for query in asked:
            if len(query.attributes) > 1 and query.is_product and not query.matrices:
                full = next(
                    (name for name in query.attributes if name in maps and name not in dict(query.groups)), None
                )
                if full is not None:
                    raise PlanError(
                        f"the table of {' x '.join(query.attributes)} must count the groups of {full!r}, as others do: "
                        "only its table by itself may be in full"
                    )
        return cls(schema, tuple(sorted(maps.items())))

    @cached_property
    def codes(self) -> Mapping[str, NDArray[np.intp]]:
        """The group of each value, by attribute."""
        return {name: np.array(groups, np.intp) for name, groups in self.maps}

    @cached_property
    def full_names(self) -> Mapping[str, str]:
        """For each attribute with groups its name in full in the extended schema."""
        taken, out = set(self.schema.names), {}
        for name, _ in self.maps:
            full = f"{name} in full"
            while full in taken:
                full += "_"
            taken.add(full)
            out[name] = full
        return out

    @cached_property
    def extended(self) -> Schema:
        """The schema with attributes in groups, and after them, by other names, the same ones in full."""
        maps = dict(self.maps)
        grouped = [a.grouped(maps[a.name]) if a.name in maps else a for a in self.schema.attributes]
        in_full = [self.schema[name].renamed(full) for name, full in self.full_names.items()]
        facts = [fact for fact in self.schema.facts if self._without(fact)]
        return DerivedSchema([*grouped, *in_full], facts=facts)

    def _without(self, fact: Impossible | PublicCounts) -> bool:
        """Whether a fact says that some values are impossible, none of them of an attribute in groups."""
        return isinstance(fact, Impossible) and not any(name in self.codes for name in fact.values)

    def names(self, names: Sequence[str]) -> tuple[str, ...]:
        """A table as it is called in the extended schema where it may be had in full there: one attribute alone may."""
        return (self.full_names.get(names[0], names[0]),) if len(names) == 1 else tuple(names)

    def query(self, query: Query) -> Query:
        """The query as one about the extended schema: plain cells, or a contrast."""
        names = query.attributes
        if query.groups:
            return Cells(names)
        if len(names) == 1 and names[0] in self.full_names and isinstance(query, Product):
            return query.over(self.names(names))
        return query


def full_part(query: Query) -> tuple[Query, int]:
    """What a query says about tables in full: the part of it without groups, and how many of its cells add up to each.

    >>> full_part(Cells(("sex", "age"), {"age": [0, 0, 1, 1, 2]}))
    (Product({'cells': ['sex']}), 3)
    """
    if not query.groups:
        return query, 1
    maps = dict(query.groups)
    kept = Cells(tuple(name for name in query.attributes if name not in maps))
    return kept, math.prod(max(groups) + 1 for groups in maps.values())


def check_parts(queries: Iterable[Query]) -> None:
    """Raise unless all sets inside the table of every Kronecker query are measured, the total among them.

    Of a table that is measured by a matrix nothing can be read without them: along the matrix there is no mean. The
    same holds for contrasts over an attribute that has a matrix elsewhere.
    """
    asked = list(filter(_IS_PRODUCT, queries))
    if not any(map(_MATRICES, asked)):
        return
    mixed = set(mixed_of(asked))
    measured: set[frozenset[str]] = set()
    for query in asked:
        orders = (len(query.attributes),) if query.is_residual else range(len(query.attributes) + 1)
        measured.update(frozenset(part) for order in orders for part in combinations(query.attributes, order))
    for query in (each for each in asked if each.matrices or mixed.intersection(each.attributes)):
        parts = (part for order in range(len(query.attributes)) for part in combinations(query.attributes, order))
        missing = next((part for part in parts if frozenset(part) not in measured), None)
        if missing is not None:
            raise PlanError(
                f"{' x '.join(query.attributes)} is measured by a matrix, so all tables inside it must be measured "
                f"too; {' x '.join(missing) or 'the total'} is not"
            )


def matrices_of(queries: Iterable[Query]) -> Matrices:
    """The matrices of attributes that all queries measure in the same way; those of ``mixed_of`` are not among them.

    Raises:
        PlanError: Some attribute has a matrix and values are in groups somewhere: coefficients would not be
            independent.
    """
    asked = list(queries)
    found = _ways(asked)
    if not found:
        return ()
    if any(query.groups for query in asked):
        raise PlanError("a release with linear strategies cannot count values in groups")
    return tuple((name, matrix) for name, ways in found.items() if len(ways) == 1 for matrix in _given(ways))


def all_matrices_of(queries: Iterable[Query]) -> Mapping[str, tuple[Matrix, ...]]:
    """For each attribute that is measured by a matrix somewhere its matrices, in the order of the queries."""
    return {name: _given(ways) for name, ways in _ways(list(queries)).items()}


def mixed_of(queries: Iterable[Query]) -> Mapping[str, tuple[Matrix, ...]]:
    """For each attribute that is measured in more than one way its matrices, in the order of the queries.

    Two matrices are two ways, and so are a matrix here and cells or contrasts there. ``residuals.mixed`` combines them.

    Raises:
        PlanError: A query holds two such attributes.
    """
    asked = list(filter(_IS_PRODUCT, queries))
    ways = _ways(asked)
    if not ways:
        return {}
    found = {name: _given(own) for name, own in ways.items() if len(own) > 1}
    for query in asked:
        both = [name for name in query.attributes if name in found]
        if len(both) > 1:
            raise PlanError(
                f"{both[0]!r} and {both[1]!r} are each measured in more than one way, so no table may hold both; "
                f"{' x '.join(query.attributes)} does"
            )
    return found


def _given(ways: Iterable[Matrix | None]) -> tuple[Matrix, ...]:
    return tuple(way for way in ways if way is not None)


def _ways(queries: Sequence[Query]) -> dict[str, dict[Matrix | None, None]]:
    """For each attribute, by name, that has a matrix somewhere its ways: matrices, None for cells and contrasts."""
    if not any(map(_MATRICES, queries)):
        return {}
    names = {name for query in queries for name, _ in query.matrices}
    out: dict[str, dict[Matrix | None, None]] = {name: {} for name in sorted(names)}
    for query in filter(_IS_PRODUCT, queries):
        own = dict(query.matrices)
        for name in out.keys() & set(query.attributes):
            out[name][own.get(name)] = None
    return out
