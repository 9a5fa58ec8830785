"""How the queries of a release measure each attribute: its values, groups of them, by one matrix, or by several.

``consistency`` says what may stand together. The table of an attribute with groups may be measured in full, and larger
tables that hold it count its groups. So the attribute stands for two: one whose values are the groups, which the
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
from crosstally.query.consistency import given_matrices, group_maps_of, matrices_of, mixed_of, ways_of
from crosstally.query.operators import GroupMaps, Matrix
from crosstally.query.queries import Cells, Product, Query
from crosstally.schema import DerivedSchema, Impossible, PublicCounts, Schema

__all__ = ["Groups", "all_matrices_of", "check_parts", "full_part", "matrices_of", "mixed_of"]

_IS_PRODUCT, _MATRICES = attrgetter("is_product"), attrgetter("matrices")


@dataclass(frozen=True)
class Groups:
    """The groups of a release: for each attribute that has any, the group of each of its values."""

    schema: Schema
    maps: GroupMaps

    @classmethod
    def of(cls, schema: Schema, queries: Iterable[Query]) -> Groups | None:
        """The groups that some queries have together; None where there are none. See ``group_maps_of``."""
        maps = group_maps_of(queries)
        return cls(schema, maps) if maps else None

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


def all_matrices_of(queries: Iterable[Query]) -> Mapping[str, tuple[Matrix, ...]]:
    """For each attribute that is measured by a matrix somewhere its matrices, in the order of the queries."""
    return {name: given_matrices(ways) for name, ways in ways_of(list(queries)).items()}
