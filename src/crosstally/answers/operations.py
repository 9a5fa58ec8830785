"""What one can do with a labelled table: pick, add up, group, compare. Each result knows its own error."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from crosstally.answers.changes import (
    Change,
    added,
    combined,
    in_a_row,
    moved,
    shifted,
    statistic,
    taken,
)
from crosstally.answers.joint_draws import Joint
from crosstally.answers.public_numbers import public_numbers
from crosstally.answers.uncertainty import Uncertainty, computed
from crosstally.checks import check_kind, names_in, several
from crosstally.errors import QueryError, did_you_mean
from crosstally.schema import Attribute, Level, Schema
from crosstally.schema.canonical import canonical_text
from crosstally.typing import Floats

COUNT, DIFFERENCE, RATE, RATIO, SHARE, VALUE = "count", "difference", "rate", "ratio", "share", "value"

_MOST_CELLS = 5_000  # of a covariance: 200 MB


class LabelledTable(ABC):
    """One number for each combination of values, with an uncertainty that knows how all of them err together."""

    __slots__ = ()
    __array_ufunc__ = None  # numpy leaves operators to the table, which knows its errors

    schema: Schema
    values: Floats
    uncertainty: Uncertainty | None
    quantity: str
    where: str

    @abstractmethod
    def _computed(
        self,
        schema: Schema,
        values: Floats,
        uncertainty: Uncertainty | None,
        *,
        quantity: str,
        others: Sequence[Self] = (),
    ) -> Self:
        """What was computed from this table, and maybe others."""

    @abstractmethod
    def _picked(self, schema: Schema, change: Change, *, where: str) -> Self:
        """Some cells of this table, with the errors that they have."""

    def _changed(self, schema: Schema, change: Change, quantity: str, *, counts: bool = False) -> Self:
        """What a change makes of this table."""
        own = self.uncertainty
        mapped = None if own is None else own.map(change, self.values, quantity, counts=counts)
        return self._computed(schema, change.table(self.values), mapped, quantity=quantity)

    @property
    def joint(self) -> Joint | None:
        """How its cells vary together with those of other answers, where that is known."""
        return None if self.uncertainty is None else self.uncertainty.joint

    def draws(self) -> Floats:
        """The table as it could have come out: (1 + draws, *shape), to compute anything with its error.

        Row 0 is the truth of the replicates, and each further row what the inference made of it with noise drawn anew.
        Row r belongs to row r of all answers of the release, so a function f of several answers, row by row, has

            std_error = sqrt(mean over r >= 1 of (f(draws[r]) - f(draws[0])) ** 2)

        as with replicate weights, row 0 in the place of the full sample. Unmeasured tables have more rows, which visit
        the replicates in turn: row 1 + r of 101 belongs to row 1 + r + 100 k.
        """
        if self.joint is None:
            raise QueryError("the error of this table is not known, so it has no draws")
        return self.joint.draws.copy()

    def covariance(self) -> Floats:
        """The covariance of each two numbers over the draws: (cells, cells), cells as in ``values.ravel()``."""
        if self.values.size > _MOST_CELLS:
            raise QueryError(f"a covariance is of at most {_MOST_CELLS:,} cells, got {self.values.size:,}")
        draws = self.draws().reshape(-1, self.values.size)
        apart = draws[1:] - draws[0]
        return np.asarray(apart.T @ apart / len(apart))

    def unshrunk_draws(self) -> Floats:
        """The table before noise is shrunk and negative cells are corrected, then the same with its noise drawn anew.

        Where there is no such estimate, as for tables that nobody measured: the table and its draws.
        """
        if self.joint is None:
            raise QueryError("the error of this table is not known, so noise and what it hides cannot be told apart")
        draws = self.joint.unshrunk
        if draws is not None:
            return draws
        return np.concatenate([self.values[None], self.values + self.joint.draws[1:] - self.joint.draws[0]])

    # As a number and as an array

    @property
    def value(self) -> float:
        """The number of a table without attributes."""
        if self.values.ndim:
            raise QueryError(f"only a single number has a value; pick one of {self.values.size} cells first: m[...]")
        return float(self.values)

    def __float__(self) -> float:
        return self.value

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.values, dtype=dtype, copy=copy)

    def __iter__(self) -> Iterator[Self]:
        """The answers for each label of the first attribute, in order."""
        if not self.values.ndim:
            raise TypeError("a single number cannot be iterated over")
        return (self[label] for label in self.schema.attributes[0].labels)

    # Picking cells

    def __getitem__(self, key: object) -> Self:
        """The part with these labels, one for each attribute in order; a list keeps several, a slice all.

        ``m["Female", "25-34"]`` is one number, ``m["Female"]`` the table of the other attributes.
        """
        keys = key if isinstance(key, tuple) else (key,)
        if len(keys) > self.values.ndim:
            raise QueryError(f"at most {self.values.ndim} labels can be given, got {len(keys)}")
        given = dict(zip(self.schema.names, keys, strict=False))
        return self.sel({name: each for name, each in given.items() if not _is_all(each)})

    def sel(self, labels: Mapping[str, object] | None = None, **more: object) -> Self:
        """The part of the table with these labels: ``m.sel(sex="Female")``; a list of labels keeps the attribute.

        Args:
            labels: A label or a list of labels for some attributes; for names that are not words of Python.
            more: The same.
        """
        out, chosen = self, {} if labels is None else labels
        check_kind(chosen, Mapping, "labels")
        for name, wanted in {**chosen, **more}.items():
            out = out._selected(out._axis(name), wanted)
        return out

    def _selected(self, axis: int, wanted: object) -> Self:
        attribute = self.schema.attributes[axis]
        several = isinstance(wanted, Iterable) and not isinstance(wanted, str)
        codes = [
            label_code(attribute, each) for each in (wanted if isinstance(wanted, Iterable) and several else [wanted])
        ]
        if not codes or len(set(codes)) < len(codes):
            raise QueryError(f"{attribute.name!r}: labels must be given, each once")
        if several and codes == list(range(attribute.size)):
            return self
        kept = [attribute.keeping(codes)] if several else []
        schema = self._schema_with(axis, kept)
        change = taken(axis, tuple(codes), attribute.size, kept=several)
        names = ", ".join(attribute.labels[code] for code in codes)
        text = f"{attribute.name} in {{{names}}}" if several else f"{attribute.name} = {names}"
        return self._picked(schema, change, where=" and ".join(filter(None, [self.where, text])))

    def sort(self, *, ascending: bool = False) -> Self:
        """The cells in the order of their values, the largest first; several attributes become one of all."""
        check_kind(ascending, bool, "ascending")
        order = np.argsort(self.values.ravel() if ascending else -self.values.ravel(), kind="stable")
        return self._in_a_row(order)

    def top(self, n: int) -> Self:
        """The cells with the largest values, at most ``n`` of them."""
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise QueryError(f"n must be a whole number of at least 1, got {n!r}")
        return self._in_a_row(np.argsort(-self.values.ravel(), kind="stable")[:n])

    def _in_a_row(self, cells: NDArray[np.intp]) -> Self:
        if not self.values.ndim:
            return self
        attributes, codes = self.schema.attributes, np.unravel_index(cells, self.schema.shape)
        texts = [
            ", ".join(each.labels[code] for each, code in zip(attributes, place, strict=True))
            for place in zip(*(axis.tolist() for axis in codes), strict=True)
        ]
        row = attributes[0].relabelled(texts, name=", ".join(self.schema.names))
        return self._picked(replace(self.schema, attributes=(row,)), in_a_row(cells), where=self.where)

    # Adding up

    def sum(self, *names: str | Iterable[str]) -> Self:
        """The table with these attributes summed out, as in xarray; without names, the sum of all cells."""
        out = self
        for name in names_in(names) if names else self.schema.names:
            axis = out._axis(name)
            out = out._added(axis, np.ones((1, out.schema.shape[axis])), [])
        return out

    def group(self, name: str, groups: Mapping[str, Sequence[str]]) -> Self:
        """The table with values of an attribute put together; values in no group stay as they are.

        Args:
            name: The attribute.
            groups: For each new label the labels that it holds: ``{"under 18": ["0-4", "5-17"]}``.
        """
        check_kind(groups, Mapping, "groups")
        listed = {group: list(several(labels, f"the labels of {group!r}")) for group, labels in groups.items()}
        return self._grouped(self._axis(name), listed, ())

    def _grouped(self, axis: int, groups: Mapping[str, Sequence[str]], above: tuple[Level, ...]) -> Self:
        """Values of an attribute put together, which has these levels above it then."""
        attribute = self.schema.attributes[axis]
        name = attribute.name
        held = {code: group for group, labels in groups.items() for code in (label_code(attribute, x) for x in labels)}
        if len(held) < sum(len(labels) for labels in groups.values()):
            raise QueryError(f"{name!r}: a label must be in one group only")
        named = [held.get(code, label) for code, label in enumerate(attribute.labels)]
        new = list(dict.fromkeys(named))
        lone = {label for code, label in enumerate(attribute.labels) if code not in held}
        if lone & set(groups):
            raise QueryError(f"{name!r}: the group {min(lone & set(groups))!r} must not be called like a label outside")
        matrix = np.array([[float(each == group) for each in named] for group in new])
        return self._added(axis, matrix, [attribute.relabelled(new, hierarchy=above)])

    def roll_up(self, name: str, level: str) -> Self:
        """The table with an attribute at a coarser level of its hierarchy."""
        attribute = self.schema.attributes[self._axis(name)]
        number = _level(attribute, level) + 1
        return self._grouped(self._axis(name), dict(_held(attribute)[number - 1]), attribute.hierarchy[number:])

    def drill_down(self, name: str, group: str, *, level: str | None = None) -> Self:
        """The table inside a group of a hierarchy, one level finer: ``m.drill_down("town", "Bern")`` has its towns.

        Args:
            name: The attribute, at a level below that of the group.
            group: A label of one of its levels: a canton, a country.
            level: Which level the group is of, if a label of that name is in several. The highest otherwise.
        """
        attribute = self.schema.attributes[self._axis(name)]
        held = _held(attribute)
        levels = range(len(held)) if level is None else [_level(attribute, level)]
        found = [number for number in levels if group in held[number]]
        if not found:
            known = [each for number in levels for each in held[number]]
            raise QueryError(f"{name!r} has no group {str(group)[:60]!r}{did_you_mean(str(group), known)}")
        inside = self.sel({name: held[found[-1]][group]})
        return inside.roll_up(name, attribute.hierarchy[found[-1] - 1].name) if found[-1] else inside

    def transpose(self, *names: str | Iterable[str]) -> Self:
        """The table with its attributes in another order, as in xarray; without names, in the opposite one."""
        order = [self._axis(name) for name in names_in(names)] if names else list(range(self.values.ndim))[::-1]
        if sorted(order) != list(range(self.values.ndim)):
            raise QueryError(f"each attribute must be named once, of {', '.join(self.schema.names)}")
        attributes = tuple(self.schema.attributes[axis] for axis in order)
        return self._picked(replace(self.schema, attributes=attributes), moved(tuple(order)), where=self.where)

    def with_totals(self, *names: str | Iterable[str], label: str = "All") -> Self:
        """The table with one more label for each of these attributes, or for all: the sum over it."""
        check_kind(label, str, "label")
        out = self
        for name in names_in(names) if names else self.schema.names:
            axis = out._axis(name)
            attribute = out.schema.attributes[axis]
            if label in attribute.labels:
                raise QueryError(f"{name!r} has a label {label!r} already; choose another one for totals")
            matrix = np.vstack([np.eye(attribute.size), np.ones(attribute.size)])
            out = out._added(axis, matrix, [attribute.relabelled([*attribute.labels, label])])
        return out

    def cumulative(self, name: str) -> Self:
        """The table with each value of an attribute counting all values up to it too."""
        axis = self._axis(name)
        size = self.schema.shape[axis]
        return self._added(axis, np.tril(np.ones((size, size))), [self.schema.attributes[axis]])

    def weighted_sum(self, name: str, weights: Sequence[float]) -> Self:
        """The table with an attribute summed out, each of its values times a weight."""
        axis = self._axis(name)
        try:
            row = np.array([weights], np.float64)
        except (TypeError, ValueError):
            row = np.empty(0)
        if row.shape != (1, self.schema.shape[axis]) or not np.isfinite(row).all():
            raise QueryError(f"{name!r}: weights must be {self.schema.shape[axis]} numbers, one for each label")
        return self._added(axis, row, [], quantity=VALUE)

    def _added(self, axis: int, matrix: Floats, attributes: Sequence[Attribute], quantity: str = "") -> Self:
        """Cells along an axis added up by the rows of a matrix; without attributes the axis is left out."""
        quantity = quantity or (self.quantity if self.quantity in {COUNT, DIFFERENCE} else VALUE)
        change = added(axis, matrix, kept=bool(attributes))
        return self._changed(self._schema_with(axis, attributes), change, quantity, counts=quantity == COUNT)

    # Arithmetic

    def shares(self, *within: str | Iterable[str]) -> Self:
        """The share of each cell in the total, or in the cells with the same values of some attributes.

        ``m.shares("sex")`` adds up to one for each sex.
        """
        kept = names_in(within) if within else ()
        self.schema.check(kept)
        out = [name for name in self.schema.names if name not in kept]
        return self.share_of(self.sum(*out) if out else self)

    def share_of(self, whole: Self) -> Self:
        """The share of each cell in another table, which counts it too: what it is divided by."""
        return self.per(whole, SHARE)

    def per(self, other: Self, quantity: str) -> Self:
        """Each cell divided by that of another table, under a name of its own: a rate, a mean."""
        if not isinstance(other, LabelledTable):
            raise QueryError(f"a table is divided by another table of answers, got {type(other).__name__}")
        check_kind(quantity, str, "quantity")
        return self._with(other, np.divide, quantity)

    def statistic(self, function: Callable[[Floats], Floats], quantity: str) -> Self:
        """Any number that depends on all cells, with its error.

        Args:
            function: Gets a stack of tables, the first axis, and gives one number for each.
            quantity: What the number is called.
        """
        check_kind(function, Callable, "function")
        check_kind(quantity, str, "quantity")
        return self._changed(replace(self.schema, attributes=()), statistic(function), quantity)

    def __add__(self, other: Self | float) -> Self:
        return self._plus(other, 1.0, np.add)

    __radd__ = __add__

    def __sub__(self, other: Self | float) -> Self:
        return self._plus(other, -1.0, np.subtract)

    def __rsub__(self, other: float) -> Self:
        return (-self) + other

    def __neg__(self) -> Self:
        return self * -1.0

    def __mul__(self, other: Self | float) -> Self:
        if isinstance(other, LabelledTable):
            return self._with(other, np.multiply, VALUE)
        return self._scaled(_number(other))

    __rmul__ = __mul__

    def __truediv__(self, other: Self | float | Mapping[Any, float] | NDArray[Any]) -> Self:
        """Divided by a table of answers, by a number, or by public numbers, which gives a rate.

        Public numbers are a pandas Series or a mapping, by label, or an array of the same shape:
        ``release.marginal("region") / population``.
        """
        if isinstance(other, LabelledTable):
            counts = {self.quantity, other.quantity} <= {COUNT, SHARE, RATIO}
            return self._with(other, np.divide, RATIO if counts else VALUE)
        if isinstance(other, np.ndarray) or hasattr(other, "items"):
            return self._scaled(1 / public_numbers(self.schema, other), RATE)
        return self._scaled(1 / _number(other))

    def _scaled(self, factor: float | Floats, quantity: str = VALUE) -> Self:
        own = None if self.uncertainty is None else self.uncertainty.scaled(factor, self.values, quantity)
        return self._computed(self.schema, self.values * factor, own, quantity=quantity)

    def _plus(self, other: Self | float, sign: float, function: np.ufunc) -> Self:
        if not isinstance(other, LabelledTable):
            return self._changed(self.schema, shifted(sign * _number(other)), VALUE)
        counts = self.quantity == other.quantity == COUNT
        quantity = DIFFERENCE if sign < 0 or self.quantity == other.quantity == DIFFERENCE else VALUE
        return self._with(other, function, COUNT if counts and sign > 0 else quantity, sign)

    def _with(self, other: Self, function: np.ufunc, quantity: str, sign: float | None = None) -> Self:
        """A function of two tables, cell by cell; attributes that only one of them has are repeated along."""
        wide, narrow = (self, other) if self.values.ndim >= other.values.ndim else (other, self)
        for attribute in narrow.schema.attributes:
            if attribute.name not in wide.schema.names or wide.schema[attribute.name].labels != attribute.labels:
                raise QueryError(
                    f"one table must have all attributes of the other, with the same labels; "
                    f"{attribute.name!r} differs; sum, select or group first"
                )
        mine, others = (tuple(map(wide._axis, table.schema.names)) for table in (self, other))
        places, ndim, known = (mine, others), wide.values.ndim, None
        if self.joint is not None and other.joint is not None:
            joint = self.joint.combined(other.joint, function, places, ndim=ndim, sign=sign)
            inputs = [each.uncertainty for each in (self, other) if each.uncertainty is not None]
            known = computed(inputs, joint, quantity)
        values = combined(function, places, ndim, self.values[None], other.values[None])[0]
        return self._computed(wide.schema, values, known, quantity=quantity, others=[other])

    def _axis(self, name: str) -> int:
        check_kind(name, str, "the name of an attribute")
        self.schema.check((name,))
        return self.schema.positions[name]

    def _schema_with(self, axis: int, attributes: Sequence[Attribute]) -> Schema:
        own = self.schema.attributes
        return replace(self.schema, attributes=(*own[:axis], *attributes, *own[axis + 1 :]))


def _level(attribute: Attribute, level: str) -> int:
    """The place of a level in the hierarchy of an attribute."""
    levels = [each.name for each in attribute.hierarchy]
    if level not in levels:
        raise QueryError(f"{attribute.name!r} has no level {level!r}{did_you_mean(str(level), levels)}")
    return levels.index(level)


def _held(attribute: Attribute) -> list[dict[str, list[str]]]:
    """For each level of an attribute's hierarchy, the labels that each of its groups holds."""
    out: list[dict[str, list[str]]] = []
    held = {label: [label] for label in attribute.labels}
    for level in attribute.hierarchy:
        held = {group: [label for below in labels for label in held[below]] for group, labels in level.groups}
        out.append(held)
    return out


def _is_all(wanted: object) -> bool:
    return isinstance(wanted, slice) and wanted == slice(None)


def label_code(attribute: Attribute, label: object) -> int:
    """The place of a label; numbers match as they do in rows."""
    if label in attribute.labels:
        return attribute.labels.index(str(label))
    texts = {canonical_text(each): code for code, each in enumerate(attribute.labels)}
    text = canonical_text(label) if isinstance(label, str | int | float) else None
    if text is None or text not in texts:
        raise QueryError(
            f"{attribute.name!r} has no label {str(label)[:60]!r}{did_you_mean(str(label), attribute.labels)}"
        )
    return texts[text]


def _number(given: object) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float | np.integer | np.floating):
        raise QueryError(f"a table can be combined with another table or a number, got {type(given).__name__}")
    return float(given)
