"""The public protocol of a collection: what every device is asked, with which probabilities."""

from __future__ import annotations

import json
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

from crosstally.budget import decimal_text, exact
from crosstally.errors import CrosstallyError, PlanError, SchemaError, WorkloadError
from crosstally.json_text import JsonError, read_json_file
from crosstally.local import client
from crosstally.local.oracles.oracles import read_probability, read_view_oracle
from crosstally.local.oracles.residual_oracles import EachAttribute, ResidualBit
from crosstally.local.planning.groups import Group, Oracle
from crosstally.local.planning.methods import groups_of
from crosstally.schema import Outside, Schema

__all__ = ["Protocol", "design"]

VERSION = 1
_MINIMUM = 1_000
_MOST_PEOPLE = 10**12
_KINDS = (
    "randomised-response",
    "unary-encoding",
    "local-hashing",
    "subset-selection",
    "hadamard-response",
    "residual-bit",
    "each-attribute",
)


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """A collection that anyone may read: groups, what each is asked, and exact probabilities; JSON both ways.

    ``people`` is the number expected when it was designed, ``ways`` the size of the tables that matter, ``minimum`` the
    fewest reports from which anything is released.
    """

    schema: Schema
    epsilon: Fraction
    people: int
    ways: int
    method: str
    minimum: int
    groups: tuple[Group, ...]

    def __repr__(self) -> str:
        return f"Protocol({self.id}, {self.method}, ε = {decimal_text(self.epsilon)}, {len(self.groups):,} groups)"

    @cached_property
    def document(self) -> dict[str, Any]:
        """The protocol as JSON: all that a device needs."""
        oracles: list[dict[str, Any]] = []
        groups = [group.to_dict(oracles) for group in self.groups]
        return {
            "version": VERSION,
            "epsilon": decimal_text(self.epsilon),
            "people": self.people,
            "ways": self.ways,
            "method": self.method,
            "minimum": self.minimum,
            "schema": self.schema.to_dict(),
            "oracles": oracles,
            "groups": groups,
        }

    @cached_property
    def id(self) -> str:
        """Sixteen hexadecimal digits that name it: any change of the document gives other ones."""
        return client.protocol_id(self.document).hex()

    def report(
        self,
        row: Mapping[str, Any],
        *,
        store: MutableMapping[str, str] | None = None,
        cap: str | None = None,
    ) -> bytes:
        """The 37 bytes that a person's device sends; see ``client.report``, which needs nothing but this document."""
        return client.report(self.document, row, store=store, cap=cap)

    def save(self, path: str | Path) -> None:
        """Write the document as a JSON file."""
        Path(path).write_text(json.dumps(self.document, ensure_ascii=False) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Protocol:
        """A protocol from its JSON file."""
        try:
            return cls.from_dict(read_json_file(path))
        except OSError as error:
            raise PlanError(f"cannot read the protocol {str(path)!r}: {error.strerror}") from None
        except JsonError as error:
            raise PlanError(f"{str(path)!r} is not a protocol: it {error}") from None

    @classmethod
    def from_dict(cls, given: object) -> Protocol:
        """A protocol from its JSON; every probability is checked against its epsilon."""
        try:
            made = _read(given)
        except (KeyError, TypeError, ValueError, IndexError, ZeroDivisionError, AttributeError):
            raise PlanError("a protocol must have exactly the fields of version 1, each of its kind") from None
        if made.document != given:
            raise PlanError("a protocol must be written as it would be written again; this one is not")
        try:
            client.check_privacy(made.document)
        except client.ProtocolError as error:
            raise PlanError(str(error)) from None
        return made


def _read(given: Any) -> Protocol:
    if given["version"] != VERSION:
        raise PlanError(f"a protocol must have version {VERSION}, got {given['version']!r}")
    schema = Schema.from_dict(given["schema"])
    oracles = [_read_oracle(each) for each in given["oracles"]]
    groups = tuple(_read_group(each, schema, oracles) for each in given["groups"])
    numbers = {field: _whole(given[field], field) for field in ("people", "ways", "minimum")}
    return Protocol(
        schema=schema,
        epsilon=exact(given["epsilon"], "epsilon"),
        method=str(given["method"]),
        groups=groups,
        **numbers,
    )


def _read_oracle(given: Mapping[str, Any]) -> Oracle:
    if given["kind"] not in _KINDS:
        raise PlanError(f"an oracle must be one of {', '.join(_KINDS)}, got {given['kind']!r}")
    match given["kind"]:
        case ResidualBit.kind:
            return ResidualBit(tuple(given["sizes"]), read_probability(given["keep"]))
        case EachAttribute.kind:
            return EachAttribute(tuple(given["sizes"]), keeps=tuple(map(read_probability, given["keeps"])))
        case _:
            return read_view_oracle(given)


def _read_group(given: Mapping[str, Any], schema: Schema, oracles: Sequence[Oracle]) -> Group:
    attributes = tuple(_whole(place, "attributes", least=0) for place in given["attributes"])
    oracle = oracles[_whole(given["oracle"], "oracle", least=0)]
    if oracle.sizes != tuple(schema.shape[place] for place in attributes):
        raise PlanError("the oracle of a group must be for the sizes of its attributes")
    if list(attributes) != sorted(set(attributes)):
        raise PlanError("the attributes of a group must be in the schema's order, each once")
    return Group(attributes, oracle=oracle, share=_whole(given["share"], "share"))


def _whole(number: object, field: str, *, least: int = 1) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= _MOST_PEOPLE:
        raise PlanError(f"{field} must be a whole number of at least {least}, got {number!r}")
    return number


def design(
    schema: Schema,
    *,
    epsilon: object,
    people: int,
    ways: int,
    method: str = "auto",
    minimum: int | None = None,
) -> Protocol:
    """A protocol for collecting tables from people who keep their rows to themselves.

    Args:
        schema: What a row is about. Every person has one row; values outside it are mapped, never refused.
        epsilon: What every single report may tell: the probability of any report changes by at most a factor of
            e^epsilon, whatever the row.
        people: About how many people will report; the design depends on it, the guarantee does not.
        ways: The size of the tables that matter most. Any other table can be asked for afterwards.
        method: Who is asked what; the one of least predicted error when ``auto``.
        minimum: The fewest reports from which anything is released; 1,000, or all expected if they are fewer.
    """
    _check_schema(schema)
    number = _whole(people, "people")
    if isinstance(ways, bool) or not isinstance(ways, int) or not 1 <= ways <= len(schema.names):
        raise WorkloadError(f"ways must be a whole number from 1 to {len(schema.names)}, got {ways!r}")
    budget = exact(epsilon, "epsilon")
    chosen, groups = groups_of(method, schema.shape, epsilon=budget, people=number, ways=ways)
    made = Protocol(
        schema=schema,
        epsilon=budget,
        people=number,
        ways=ways,
        method=chosen,
        minimum=_whole(min(_MINIMUM, number) if minimum is None else minimum, "minimum"),
        groups=groups,
    )
    try:
        client.check_privacy(made.document)
    except client.ProtocolError as error:
        raise CrosstallyError(f"{error}; this is a mistake of crosstally's own") from None
    return made


def _check_schema(schema: Schema) -> None:
    if schema.draft:
        raise SchemaError("the schema is a draft: review it and remove its draft mark first")
    if schema.unit is not None:
        raise SchemaError("in the local model every person has one row: leave the unit out of the schema")
    dropped = [attribute.name for attribute in schema.attributes if attribute.outside is Outside.DROP]
    if dropped:
        raise SchemaError(
            f"attribute {dropped[0]!r}: a device never drops a row; let outside be other, so that the cell is counted"
        )
