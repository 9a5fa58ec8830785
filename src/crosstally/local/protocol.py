"""The public protocol of a collection: what every device is asked, with which probabilities.

One-time tokens: what the collector hands out so that nobody chooses which group they report in.

People who lie and choose their group all go to one, where few others are, and each of them counts as often as people
are missing there. With tokens the group is a keyed hash of token and protocol (``client.place_of_token``): the device
works it out, the collector works it out again, and a token counts once. A token is a secret of the collector and of
the one person it was handed to; whoever has it can report in that person's place.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosstally.budget import Amount, decimal_text, exact
from crosstally.checks import is_whole
from crosstally.errors import BudgetError, CrosstallyError, PlanError, SchemaError, WorkloadError
from crosstally.json_text import JsonError, read_json_file
from crosstally.local import client
from crosstally.local.oracles import oracle_of
from crosstally.local.planning.methods import SHRUNK, groups_of
from crosstally.local.planning.report_groups import Group, predicted_range
from crosstally.platform_files import write_text, writing
from crosstally.schema import Outside, Schema

_MINIMUM = 1_000  # the fewest reports that are released, by default. Chosen: counts of few reports are mostly noise
_MOST_REPEATED = 1_000  # groups or oracles that are the same: designs have none, and each takes time to check
_MOST_PEOPLE = 10**12  # a limit: more people than there are, and far from where counts and shares leave int64


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """A collection that anyone may read: groups, what each is asked, and exact probabilities; JSON both ways.

    ``people`` is the number expected when it was designed, ``ways`` the size of the tables that matter, ``minimum`` the
    fewest reports from which anything is released. Where there are ``tokens``, a one-time token gives each device its
    group, otherwise the device draws it.
    """

    schema: Schema
    epsilon: Fraction
    people: int
    ways: int
    method: str
    minimum: int
    groups: tuple[Group, ...]
    tokens: bool = False

    def __repr__(self) -> str:
        return f"Protocol({self.id}, {self.method}, ε = {decimal_text(self.epsilon)}, {len(self.groups):,} groups)"

    @cached_property
    def document(self) -> dict[str, Any]:
        """The protocol as JSON: all that a device needs."""
        places = {oracle: i for i, oracle in enumerate(dict.fromkeys(group.oracle for group in self.groups))}
        groups = [group.to_dict(places) for group in self.groups]
        return {
            "version": client.VERSION,
            "epsilon": decimal_text(self.epsilon),
            "people": self.people,
            "ways": self.ways,
            "method": self.method,
            "minimum": self.minimum,
            "tokens": client.GROUP_HASH if self.tokens else None,
            "schema": self.schema.identity(),
            "oracles": [oracle.to_dict() for oracle in places],
            "groups": groups,
        }

    @cached_property
    def digest(self) -> bytes:
        """The SHA-256 of its document, of which tokens give groups."""
        return client.protocol_digest(self.document)

    @property
    def id(self) -> str:
        """Sixteen hexadecimal digits that name it: any change of the document gives other ones."""
        return self.digest[:8].hex()

    @property
    def predicted_error(self) -> tuple[float, float]:
        """How far off a table over ``ways`` attributes is expected to be, in L2 and as a part of all people.

        The first is for attributes that hardly depend on each other, the second for strong dependence. Nobody knows
        which before people have reported.
        """
        sizes, shrunk = self.schema.shape, self.method in SHRUNK
        return predicted_range(sizes, self.groups, people=self.people, ways=self.ways, shrunk=shrunk)

    def report(
        self,
        row: Mapping[str, Any],
        *,
        store: MutableMapping[str, str],
        cap: str | int | Fraction,
        token: str | None = None,
    ) -> bytes:
        """The 37 bytes that a person's device sends; see ``client.report``, which needs nothing but this document."""
        return client.report(self.document, row, store=store, cap=cap, token=token)

    def save(self, path: str | Path) -> None:
        """Write the document as a JSON file."""
        with writing(path):
            write_text(path, json.dumps(self.document, ensure_ascii=False) + "\n")

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
        """A protocol from its JSON, checked as a device checks it: types, ranges, and ratios against its epsilon."""
        for field in ("groups", "oracles"):
            listed = given.get(field) if isinstance(given, dict) else None
            if isinstance(listed, list) and len(listed) - len(set(map(repr, listed))) > _MOST_REPEATED:
                raise PlanError(f"at most {_MOST_REPEATED:,} of the {field} of a protocol may repeat another one")
        try:
            made = _read(client.check_protocol(given))
        except client.ProtocolError as error:
            raise PlanError(f"this is not a protocol of version {client.VERSION}: {error}") from None
        if made.document != given:
            raise PlanError("a protocol must be written as it would be written again; this one is not")
        return made


def _read(checked: Mapping[str, Any]) -> Protocol:
    """The protocol of a document that ``client.check_protocol`` has found right."""
    oracles = [oracle_of(each) for each in checked["oracles"]]
    return Protocol(
        schema=Schema.from_dict(checked["schema"]),
        epsilon=exact(checked["epsilon"], "epsilon"),
        people=checked["people"],
        ways=checked["ways"],
        method=checked["method"],
        minimum=checked["minimum"],
        groups=tuple(
            Group(tuple(each["attributes"]), oracle=oracles[each["oracle"]], share=each["share"])
            for each in checked["groups"]
        ),
        tokens=checked["tokens"] is not None,
    )


def _whole(number: object, field: str) -> int:
    if not is_whole(number, 1, _MOST_PEOPLE):
        raise PlanError(f"{field} must be a whole number of at least 1, got {number!r}")
    return number


def design(
    schema: Schema,
    *,
    epsilon: Amount,
    people: int,
    ways: int,
    method: str = "auto",
    minimum: int | None = None,
    tokens: bool = False,
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
        tokens: Whether the collector hands out one-time tokens, which give each device its group, so that people who
            lie cannot choose theirs (``Tokens``). Without them each device draws its own.
    """
    _check_schema(schema)
    schema = schema.bare()  # devices need no descriptions
    number = _whole(people, "people")
    if not is_whole(ways, 1, len(schema.names)):
        raise WorkloadError(f"ways must be a whole number from 1 to {len(schema.names)}, got {ways!r}")
    budget = exact(epsilon, "epsilon")
    if len(decimal_text(budget)) > client.LONGEST_AMOUNT:
        raise BudgetError(f"epsilon must have at most {client.LONGEST_AMOUNT} characters, for devices to read it")
    chosen, groups = groups_of(method, schema.shape, epsilon=budget, people=number, ways=ways)
    made = Protocol(
        schema=schema,
        epsilon=budget,
        people=number,
        ways=ways,
        method=chosen,
        minimum=_whole(min(_MINIMUM, number) if minimum is None else minimum, "minimum"),
        groups=groups,
        tokens=tokens,
    )
    try:
        client.check_protocol(made.document)
    except client.ProtocolError as error:
        raise CrosstallyError(f"{error}; this is a mistake of crosstally's own") from None
    return made


def _check_schema(schema: Schema) -> None:
    if schema.draft:
        raise SchemaError("the schema is a draft: review it and remove its draft mark first")
    if schema.reading is not None:
        raise SchemaError(
            "in the local model every device gives the labels themselves: leave reading out of the schema"
        )
    if schema.unit is not None:
        raise SchemaError("in the local model every person has one row: leave the unit out of the schema")
    dropped = [attribute.name for attribute in schema.attributes if attribute.outside is Outside.DROP]
    if dropped:
        raise SchemaError(
            f"attribute {dropped[0]!r}: a device never drops a row; let outside be other, so that the cell is counted"
        )


# Tokens


TOKEN = np.dtype(f"V{client.TOKEN_BYTES}")
_HEAD = re.compile(r"crosstally-tokens-1 ([0-9a-f]{16})")
_MOST = 10**8  # a file of 3.3 GB


@dataclass(frozen=True, slots=True, eq=False)
class Tokens:
    """The tokens of one protocol, in the order in which they are handed out; its repr hides them."""

    protocol: str
    numbers: NDArray[Any]

    def __post_init__(self) -> None:
        held = np.array(self.numbers, TOKEN)
        if len(np.unique(held)) < len(held):
            raise CrosstallyError("every token must be there once: somebody holds the same one as somebody else")
        held.flags.writeable = False
        object.__setattr__(self, "numbers", held)

    def __repr__(self) -> str:
        return f"Tokens({self.protocol}, {len(self):,})"

    def __len__(self) -> int:
        return len(self.numbers)

    @classmethod
    def issue(cls, protocol: Protocol, number: int) -> Tokens:
        """So many new tokens from the operating system's secure source."""
        if not protocol.tokens:
            raise CrosstallyError("this protocol has no tokens: design it with them")
        if not is_whole(number, 1, _MOST):
            raise CrosstallyError(f"the number of tokens must be a whole number from 1 to {_MOST:,}, got {number!r}")
        return cls(protocol.id, np.frombuffer(secrets.token_bytes(client.TOKEN_BYTES * number), TOKEN))

    def texts(self) -> list[str]:
        """Each token as its person gets it: 32 hexadecimal digits."""
        return [token.tobytes().hex() for token in self.numbers]

    def joined(self, other: Tokens) -> Tokens:
        """These, and those others of the same protocol that are not among them."""
        if other.protocol != self.protocol:
            raise CrosstallyError("only tokens of the same protocol can be joined")
        both = np.concatenate([self.numbers, other.numbers])
        return Tokens(self.protocol, both[np.sort(np.unique(both, return_index=True)[1])])

    def after(self, number: int) -> Tokens:
        """Those that are left when so many of the first were handed out."""
        return Tokens(self.protocol, self.numbers[number:])

    def save(self, path: str | Path) -> None:
        """Write them as text, one in a line, to a file that only its owner can read."""
        lines = [f"crosstally-tokens-1 {self.protocol}", *self.texts()]
        write_text(Path(path), "\n".join(lines) + "\n", private=True)

    @classmethod
    def load(cls, path: str | Path, protocol: Protocol) -> Tokens:
        """The tokens of a protocol from their file."""
        try:
            head, *lines = Path(path).read_text(encoding="ascii").splitlines() or [""]
        except OSError as error:
            raise CrosstallyError(f"cannot read the tokens {str(path)!r}: {error.strerror}") from None
        except UnicodeDecodeError:
            head, lines = "", []
        found = _HEAD.fullmatch(head)
        if found is None:
            raise CrosstallyError(f"{str(path)!r} is no file of tokens: its first line must be crosstally-tokens-1 ID")
        if found[1] != protocol.id:
            raise CrosstallyError(f"{str(path)!r} holds the tokens of another protocol")
        bad = next((i for i, line in enumerate(lines, start=2) if not client.is_token(line)), None)
        if bad is not None:
            raise CrosstallyError(
                f"{str(path)!r}: line {bad} is no token of {2 * client.TOKEN_BYTES} hexadecimal digits"
            )
        return cls(protocol.id, np.frombuffer(bytes.fromhex("".join(lines)), TOKEN))


def groups_of_tokens(protocol: Protocol, tokens: NDArray[Any]) -> NDArray[np.int64]:
    """The group that each token gives, as a device works it out."""
    ends = np.cumsum([group.share for group in protocol.groups])
    places = [client.place_of_token(protocol.digest, token.tobytes(), int(ends[-1])) for token in tokens]
    return np.searchsorted(ends, np.array(places, np.int64), side="right")
