"""One column and the cells it is counted in; levels above its labels, such as municipality, canton, country."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from enum import StrEnum
from itertools import pairwise
from typing import Any, NoReturn

from crosstally.errors import SchemaError, must_be_one_of
from crosstally.schema.canonical import DATA, canonical_text, is_unicode, read_fields, read_from, read_text


@dataclass(frozen=True, slots=True)
class Level:
    """A coarser level: each group has a name and holds labels of the level below.

    >>> Level("canton", {"Bern": ["Bern", "Thun"], "Vaud": ["Lausanne"]}).labels
    ('Bern', 'Vaud')
    """

    name: str
    groups: tuple[tuple[str, tuple[str, ...]], ...]

    def __init__(self, name: str, groups: Mapping[str, Iterable[str]]) -> None:
        if not isinstance(name, str) or not name or not is_unicode(name):
            raise SchemaError(f"hierarchy: the name of a level must be a non-empty text, got {name!r}")
        if not isinstance(groups, Mapping):
            raise SchemaError(f"hierarchy: {name!r}: groups must be an object, got {type(groups).__name__}")
        for group, labels in groups.items():
            texts = isinstance(labels, Iterable) and not isinstance(labels, str)
            if not isinstance(group, str) or not group or not texts or not all(isinstance(t, str) for t in labels):
                raise SchemaError(f"hierarchy: {name!r}: each group must be a name and a list of labels")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "groups", tuple((group, tuple(labels)) for group, labels in groups.items()))

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the groups, in order."""
        return tuple(group for group, _ in self.groups)

    def to_dict(self) -> dict[str, Any]:
        """The level as JSON."""
        return {"name": self.name, "groups": {group: list(labels) for group, labels in self.groups}}


def read_levels(given: object) -> tuple[Level, ...]:
    """The levels from their JSON."""
    if not isinstance(given, list):
        raise SchemaError(f"hierarchy must be a list of levels, got {type(given).__name__}")
    names = {"name", "groups"}
    return tuple(
        Level(**read_fields(each, f"hierarchy[{i}]", known=names, needed=names)) for i, each in enumerate(given)
    )


def read_hierarchy(given: Iterable[Level], labels: Sequence[str], where: str) -> tuple[Level, ...]:
    """The levels, each of which must hold every label of the level below exactly once."""
    levels = tuple(given)
    for level in levels:
        if not isinstance(level, Level):
            raise SchemaError(f"{where}: hierarchy must be of Level objects, got {type(level).__name__}")
        held = [label for _, group in level.groups for label in group]
        wrong = sorted(set(labels) ^ set(held)) or [label for label in set(held) if held.count(label) > 1]
        if wrong:
            raise SchemaError(
                f"{where}: hierarchy: {level.name!r} must hold each label of the level below once, "
                f"and does not for {wrong[0]!r}"
            )
        labels = level.labels
    if len({level.name for level in levels}) < len(levels):
        raise SchemaError(f"{where}: hierarchy: levels must have different names")
    return levels


def levels_of(levels: Iterable[Level], labels: Iterable[str]) -> tuple[Level, ...]:
    """The levels above some of the labels; groups that hold none of them are left out.

    >>> towns = Level("canton", {"Bern": ["Bern", "Thun"], "Vaud": ["Lausanne"]})
    >>> levels_of([towns], ["Thun"])
    (Level(name='canton', groups=(('Bern', ('Thun',)),)),)
    """
    kept, out = set(labels), []
    for level in levels:
        groups = {group: [label for label in below if label in kept] for group, below in level.groups}
        out.append(Level(level.name, {group: below for group, below in groups.items() if below}))
        kept = {group for group, below in groups.items() if below}
    return tuple(out)


OTHER = "(other)"
MISSING = "(missing)"
MAX_VALUES = 100_000  # limits memory: more cells in one attribute are ids or measures, and belong into bins
_MAX_EDGE = 1e300  # well within doubles, so that differences of edges do not overflow
_SHOWN, _LONGEST_LABEL = 6, 40  # labels at the prompt, and letters of each


class Outside(StrEnum):
    """What happens to a row whose value is not one of the attribute's labels."""

    REFUSE = "refuse"
    """Stop before anything is spent."""
    OTHER = "other"
    """Count it in the cell ``(other)``."""
    DROP = "drop"
    """Leave the row out."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        """Called by ``Outside(value)`` where no member has this value."""
        raise SchemaError(must_be_one_of("outside", cls, value))


@dataclass(frozen=True, slots=True)
class Attribute:
    """One column and the cells it is counted in.

    Either ``values`` lists the labels, or ``edges`` bounds the bins ``[a, b)``, the last one closed, which ``bins`` may
    name. ``missing`` adds a cell for missing values; without it they are treated as outside values.

    The rest describes the cells and changes none of them: a ``description``, what numbers are ``measured_in``, and a
    ``hierarchy`` of levels, each of which groups the labels of the one below. ``from_data`` says that the cells were
    chosen by looking at the rows, which no budget covers.

    >>> Attribute("age", edges=[0, 18, 65, 120], missing=True).labels
    ('[0, 18)', '[18, 65)', '[65, 120]', '(missing)')
    >>> Attribute("age", edges=[16, 25, 35], bins=["16-24", "25-34"]).labels
    ('16-24', '25-34')
    """

    name: str
    values: tuple[str, ...] = ()
    _: KW_ONLY
    edges: tuple[float, ...] = ()
    bins: tuple[str, ...] = ()
    missing: bool = False
    outside: Outside = Outside.REFUSE
    description: str | None = None
    measured_in: str | None = None
    hierarchy: tuple[Level, ...] = ()
    from_data: bool = False

    def __init__(
        self,
        name: str,
        values: Iterable[str | float] = (),
        *,
        edges: Iterable[float] = (),
        bins: Iterable[str | float] = (),
        missing: bool = False,
        outside: Outside | str = Outside.REFUSE,
        description: str | None = None,
        measured_in: str | None = None,
        hierarchy: Iterable[Level] = (),
        from_data: bool = False,
    ) -> None:
        if not isinstance(name, str) or not name or not is_unicode(name):
            raise SchemaError(f"name must be a non-empty text, got {name!r}")
        where = f"attribute {name!r}"
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "values", _read_values(values, where))
        object.__setattr__(self, "edges", _read_edges(edges, where))
        object.__setattr__(self, "bins", _read_values(bins, where, "bins"))
        for field, flag in (("missing", missing), ("from_data", from_data)):
            if not isinstance(flag, bool):
                raise SchemaError(f"{where}: {field} must be true or false, got {flag!r}")
            object.__setattr__(self, field, flag)
        object.__setattr__(self, "description", read_text(description, f"{where}: description"))
        object.__setattr__(self, "measured_in", read_text(measured_in, f"{where}: measured_in"))
        try:
            object.__setattr__(self, "outside", Outside(outside))
        except SchemaError as error:
            raise SchemaError(f"{where}: {error}") from None
        if bool(self.values) == bool(self.edges):
            raise SchemaError(f"{where} must have either values or edges, and not both")
        if self.bins and len(self.bins) != len(self.edges) - 1:
            between = max(len(self.edges) - 1, 0)
            raise SchemaError(f"{where}: bins must name the {between} bins between the edges, got {len(self.bins)}")
        reserved = [cell for cell in (OTHER, MISSING) if cell in self.values or cell in self.bins]
        if reserved:
            raise SchemaError(f"{where}: the label {reserved[0]!r} is reserved; use outside or missing instead")
        if self.size < 2:
            raise SchemaError(f"{where} must have at least two cells, got {self.size}; leave it out of the schema")
        if self.size > MAX_VALUES:
            raise SchemaError(f"{where} must have at most {MAX_VALUES:,} cells, got {self.size:,}")
        object.__setattr__(self, "hierarchy", read_hierarchy(hierarchy, self._own_labels, where))

    @property
    def labels(self) -> tuple[str, ...]:
        """One label for each cell: values or bins, then ``(other)``, then ``(missing)``."""
        extra = (OTHER,) * (self.outside is Outside.OTHER) + (MISSING,) * self.missing
        return self._own_labels + extra

    @property
    def _own_labels(self) -> tuple[str, ...]:
        return self.values or self.bins or self._bin_labels()

    @property
    def size(self) -> int:
        """How many cells there are."""
        return max(len(self.values), len(self.edges) - 1) + (self.outside is Outside.OTHER) + self.missing

    @property
    def other_code(self) -> int | None:
        """The cell of values outside the labels, if there is one."""
        return self.size - 1 - self.missing if self.outside is Outside.OTHER else None

    @property
    def missing_code(self) -> int | None:
        """The cell of missing values: their own, or that of outside values, if there is one."""
        return self.size - 1 if self.missing else self.other_code

    def _bin_labels(self) -> tuple[str, ...]:
        texts = [canonical_text(edge) for edge in self.edges]
        last = len(texts) - 2
        return tuple(f"[{texts[i]}, {texts[i + 1]}{']' if i == last else ')'}" for i in range(last + 1))

    def keeping(self, codes: Sequence[int]) -> Attribute:
        """The attribute with only some of its cells, as in a table that a condition restricts."""
        if list(codes) == list(range(self.size)):
            return self
        labels = tuple(self.labels[code] for code in codes)
        return _AttributePart(self.name, labels, levels_of(self.hierarchy, labels))

    def to_dict(self) -> dict[str, Any]:
        """The attribute as JSON; what is at its default is left out."""
        out = self.identity()
        if self.bins:
            out["bins"] = list(self.bins)
        for field in ("description", "measured_in"):
            if getattr(self, field) is not None:
                out[field] = getattr(self, field)
        if self.hierarchy:
            out["hierarchy"] = [level.to_dict() for level in self.hierarchy]
        if self.from_data:
            out["from"] = DATA
        return out

    def identity(self) -> dict[str, Any]:
        """What defines the cells: everything that the cost of a measurement, and so a ledger, depends on."""
        out: dict[str, Any] = {"name": self.name}
        if self.values:
            out["values"] = list(self.values)
        else:
            out["edges"] = list(self.edges)
        if self.missing:
            out["missing"] = True
        if self.outside is not Outside.REFUSE:
            out["outside"] = self.outside.value
        return out

    def __str__(self) -> str:
        return f"{self.name}:{self.size}"

    def __repr__(self) -> str:
        return f"Attribute({self.name!r}, {self.size} cells: {self.labels_in_short})"

    @property
    def labels_in_short(self) -> str:
        """The first labels, and how many there are if that is not all."""
        shown = ", ".join(label[:_LONGEST_LABEL] for label in self.labels[:_SHOWN])
        return shown if self.size <= _SHOWN else f"{shown}, ... ({self.size:,})"

    def grouped(self, groups: Sequence[int]) -> Attribute:
        """The attribute whose cells are groups of these cells; a group is named after its first and last cell.

        >>> Attribute("town", ["Bonn", "Köln", "Paris"]).grouped([0, 1, 0]).labels
        ('Bonn ... Paris', 'Köln')
        """
        members: dict[int, list[str]] = {}
        for label, group in zip(self.labels, groups, strict=True):
            members.setdefault(group, []).append(label)
        named = (members[group] for group in range(len(members)))
        return _AttributePart(self.name, tuple(m[0] if len(m) == 1 else f"{m[0]} ... {m[-1]}" for m in named))

    def renamed(self, name: str) -> Attribute:
        """The same cells under a different name."""
        return _AttributePart(name, self.labels)

    def relabelled(
        self, labels: Iterable[str], *, name: str | None = None, hierarchy: tuple[Level, ...] = ()
    ) -> Attribute:
        """The attribute with new cells that are made from these, as a table shows them."""
        return _AttributePart(name or self.name, tuple(labels), hierarchy)


class _AttributePart(Attribute):
    """Some cells of an attribute as plain labels; a single one will do, and ``(missing)`` may be among them."""

    __slots__ = ()

    def __init__(self, name: str, values: tuple[str, ...], hierarchy: tuple[Level, ...] = ()) -> None:
        # the rules are for whole attributes, and name and labels come from one
        for field in fields(Attribute):
            object.__setattr__(self, field.name, field.default)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "hierarchy", hierarchy)


def _read_values(values: Iterable[object], where: str, field: str = "values") -> tuple[str, ...]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise SchemaError(f"{where}: {field} must be a list of labels, got {values!r}")
    labels: list[str] = []
    seen = set()
    for value in values:
        text = canonical_text(value) if isinstance(value, str | int | float | bool) else None
        if text is None or not is_unicode(text):
            raise SchemaError(f"{where}: each of {field} must be a non-empty text, number or boolean, got {value!r}")
        labels.append(value if isinstance(value, str) else text)
        if text in seen:
            raise SchemaError(f"{where}: {field} must differ, got {labels[-1]!r} twice")
        seen.add(text)
        if len(labels) > MAX_VALUES:
            raise SchemaError(f"{where} must have at most {MAX_VALUES:,} cells, got more")
    return tuple(labels)


def _read_edges(edges: Iterable[object], where: str) -> tuple[float, ...]:
    if isinstance(edges, str) or not isinstance(edges, Iterable):
        raise SchemaError(f"{where}: edges must be a list of numbers, got {edges!r}")
    numbers: list[float] = []
    for edge in edges:
        if isinstance(edge, bool) or not isinstance(edge, int | float) or not -_MAX_EDGE < edge < _MAX_EDGE:
            raise SchemaError(f"{where}: each of edges must be a finite number, got {str(edge)[:40]!r}")
        numbers.append(edge)
    if len(numbers) == 1:
        raise SchemaError(f"{where}: edges must be at least two numbers, got 1")
    if any(a >= b for a, b in pairwise(numbers)):
        raise SchemaError(f"{where}: edges must increase, got {numbers}")
    return tuple(numbers)


_CELLS = {"name", "values", "edges", "missing", "outside"}
_DESCRIPTION = {"bins", "description", "measured_in", "hierarchy", "from"}


def read_attribute(given: object, where: str) -> Attribute:
    """An attribute from its JSON; errors name the place."""
    found = read_fields(given, where, known=_CELLS | _DESCRIPTION, needed={"name"})
    try:
        from_data = read_from(found.pop("from", None))
        levels = read_levels(found.pop("hierarchy", []))
        return Attribute(**found, hierarchy=levels, from_data=from_data)
    except SchemaError as error:
        raise SchemaError(f"{where}: {error}") from None
