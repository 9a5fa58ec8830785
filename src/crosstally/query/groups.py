"""Values in groups: what larger tables of a wide attribute count, and the schema in which such tables are plain.

One attribute has one grouping in a release. Its table by itself may be measured in full; every table over more
attributes that holds it counts groups. So the attribute stands for two: one whose values are the groups, which the
larger tables are about, and one with all its values, which is in no table but its own. ``Groups.extended`` is the
schema with both. In it every measurement is one of plain cells or a contrast, and everything linear, the correction of
negative cells and reconstruction work as for any schema. What the two say about each other is put together in
``residuals.nested``; ``answers`` spread cells of groups over their values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from crosstally.errors import PlanError
from crosstally.query.queries import Cells, Contrast, GroupMaps, Query
from crosstally.schema import DerivedSchema, Impossible, PublicCounts, Schema

__all__ = ["Groups", "full_part"]


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
            if len(query.attributes) > 1 and isinstance(query, Cells | Contrast):
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
        if isinstance(query, Cells) and query.groups:
            return Cells(names)
        if isinstance(query, Cells | Contrast) and len(names) == 1 and names[0] in self.full_names:
            return type(query)(self.names(names))
        return query


def full_part(query: Query) -> tuple[Query, int]:
    """What a query says about tables in full: the part of it without groups, and how many of its cells add up to each.

    >>> full_part(Cells(("sex", "age"), {"age": [0, 0, 1, 1, 2]}))
    (Cells(attributes=('sex',), groups=()), 3)
    """
    if not isinstance(query, Cells) or not query.groups:
        return query, 1
    maps = dict(query.groups)
    cells = 1
    for groups in maps.values():
        cells *= max(groups) + 1
    return Cells(tuple(name for name in query.attributes if name not in maps)), cells
