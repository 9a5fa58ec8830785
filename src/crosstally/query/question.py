"""Questions about rows, before a schema is known: counts, totals, and weighted sums of them.

A question becomes a ``Linear`` query when it meets a schema. Its sensitivity is computed from what one row can add.

Which rows a table counts: a condition that has met a schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crosstally.errors import QueryError
from crosstally.query.conditions import And, Box, Condition, OneOf, Range, number_of_text, shown
from crosstally.query.grammar import Call, parse, parse_question
from crosstally.query.linear import Linear, Term
from crosstally.schema import Attribute, Schema, canonical_text

Factor = tuple[str, tuple[int, ...] | None]
"""An attribute, and a whole number for each of its cells; None stands for the numbers that its labels are."""


@dataclass(frozen=True, slots=True)
class Part:
    """A weight times a product of factors, over the rows for which a condition is true."""

    weight: int
    condition: Condition
    factors: tuple[Factor, ...] = ()

    def terms(self, schema: Schema) -> list[Term]:
        """A term for each box of the condition."""
        return [_term(self.weight, box, self.factors, schema) for box in self.condition.boxes(schema)]


@dataclass(frozen=True, slots=True)
class Question:
    """A sum over rows that can be asked of any schema that has the attributes. Questions add and take whole weights.

    >>> from crosstally.schema import Attribute, Schema
    >>> schema = Schema([Attribute("sex", ["Female", "Male"]), Attribute("age", edges=[0, 18, 65, 120])])
    >>> (count(sex="Female") - 2 * count(age=(18, 65))).query(schema).terms
    (Term(weight=1, factors=(('sex', (1, 0)),)), Term(weight=-2, factors=(('age', (0, 1, 0)),)))
    """

    parts: tuple[Part, ...]

    def query(self, schema: Schema) -> Linear:
        """The question about the cells of a schema."""
        terms = [term for part in self.parts for term in part.terms(schema)]
        return Linear(tuple(terms)) if terms else Linear((Term(0, ()),))

    def __add__(self, other: object) -> Question:
        return Question(self.parts + other.parts) if isinstance(other, Question) else NotImplemented

    def __sub__(self, other: object) -> Question:
        return self + (-1) * other if isinstance(other, Question) else NotImplemented

    def __rmul__(self, weight: object) -> Question:
        if isinstance(weight, bool) or not isinstance(weight, int):
            return NotImplemented
        return Question(tuple(Part(weight * part.weight, part.condition, part.factors) for part in self.parts))

    def __neg__(self) -> Question:
        return -1 * self


def _term(weight: int, box: Mapping[str, frozenset[int]], factors: Sequence[Factor], schema: Schema) -> Term:
    numbers: dict[str, list[int]] = {
        name: [int(code in cells) for code in range(schema[name].size)] for name, cells in box.items()
    }
    for name, given in factors:
        values = _label_numbers(schema[name]) if given is None else given
        if len(values) != schema[name].size:
            raise QueryError(
                f"values of {name!r} must be one for each of its {schema[name].size} cells, got {len(values)}"
            )
        before = numbers.get(name, [1] * len(values))
        numbers[name] = [a * b for a, b in zip(before, values, strict=True)]
    return Term(weight, tuple((name, tuple(each)) for name, each in numbers.items()))


def count(where: str | None = None, /, **conditions: object) -> Question:
    """How many rows satisfy all conditions; without any, how many there are.

    Args:
        where: Conditions as text, such as ``"25 <= age < 35 and sex = Female"``.
        **conditions: For each attribute a label, a list of labels, or a range ``(low, high)`` of numbers: half-open,
            on the edges of bins, and the last bin closed. None leaves an end open.

    >>> from crosstally.schema import Attribute, Schema
    >>> schema = Schema([Attribute("sex", ["Female", "Male"]), Attribute("age", edges=[0, 18, 65, 120])])
    >>> count("age >= 18", sex="Male").query(schema).terms
    (Term(weight=1, factors=(('age', (0, 1, 1)), ('sex', (0, 1)))),)
    """
    return Question((Part(1, _condition(where, conditions)),))


def total(
    *attributes: str,
    where: str | Mapping[str, object] | Question | None = None,
    values: Mapping[str, Iterable[int]] | None = None,
) -> Question:
    """The sum over rows of an attribute, or of a product of several; one named twice is squared.

    The number of a cell is its label, a whole number (other and missing cells count 0), or what ``values`` says: bins
    have no number of their own.

    Args:
        *attributes: The attributes multiplied.
        where: Sum only over rows that satisfy this: a text, conditions as in ``count``, or a count.
        values: For an attribute, a whole number for each of its cells in the schema's order.

    >>> from crosstally.schema import Attribute, Schema
    >>> total("children").query(Schema([Attribute("children", ["0", "1", "2"], missing=True)])).terms
    (Term(weight=1, factors=(('children', (0, 1, 2, 0)),)),)
    """
    if not attributes:
        raise QueryError("a total must name at least one attribute; count() counts rows")
    given = {} if values is None else dict(values)
    unused = set(given) - set(attributes)
    if unused:
        raise QueryError(f"values are given for {min(unused)!r}, of which there is no total")
    factors = tuple((name, tuple(given[name]) if name in given else None) for name in attributes)
    return Question((Part(1, condition_of(where), factors),))


def fourier(*attributes: str) -> Question:
    """A Fourier coefficient of attributes of two cells: rows with an even number of second values minus the rest."""
    return Question((Part(1, And(()), tuple((name, (1, -1)) for name in attributes)),))


def wavelet(**steps: tuple[object, object, object]) -> Question:
    """A Haar wavelet coefficient: for each attribute (low, middle, high), +1 below the middle, -1 from there on.

    >>> from crosstally.schema import Attribute, Schema
    >>> wavelet(age=(0, 18, 65)).query(Schema([Attribute("age", edges=[0, 18, 65, 120])])).terms
    (Term(weight=1, factors=(('age', (1, 0, 0)),)), Term(weight=-1, factors=(('age', (0, 1, 0)),)))
    """
    parts = [Part(1, And(()))]
    for name, step in steps.items():
        if len(step) != 3:
            raise QueryError(f"a wavelet of {name!r} must be (low, middle, high), got {len(step)} numbers")
        low, middle, high = step
        halves = ((1, _range(name, (low, middle))), (-1, _range(name, (middle, high))))
        parts = [Part(p.weight * sign, And((p.condition, half))) for p in parts for sign, half in halves]
    return Question(tuple(parts))


def query_of(asked: object, schema: Schema) -> Linear:
    """The query that a question, a text or a query is about the cells of a schema; raises unless it fits."""
    if isinstance(asked, str):
        asked = question_of_text(asked)
    found = asked.query(schema) if isinstance(asked, Question) else asked
    if not isinstance(found, Linear):
        raise QueryError(f"a question must be a text, ct.count(...) or ct.total(...), got {type(asked).__name__}")
    found.shape(schema)
    return found


def question_of_text(text: str) -> Question:
    """A count of rows, or a total, a Fourier or a wavelet coefficient, over all rows or those of a condition.

    >>> question_of_text("total(children, children) where sex = Female") == total(
    ...     "children", "children", where="sex = Female"
    ... )
    True
    """
    asked = parse_question(text)
    if not isinstance(asked, Call):
        return Question((Part(1, asked),))
    if asked.name == "total":
        found = total(*asked.arguments)
    elif asked.name == "fourier":
        found = fourier(*asked.arguments)
    else:
        if len(asked.arguments) % 4:
            raise QueryError("a wavelet must name an attribute and three numbers, such as wavelet(age, 0, 18, 65)")
        given = [asked.arguments[i : i + 4] for i in range(0, len(asked.arguments), 4)]
        found = wavelet(**{name: tuple(map(_decimal, step)) for name, *step in given})  # type: ignore[arg-type]
    if asked.condition is None:
        return found
    everyone, only = And(()), asked.condition
    return Question(
        tuple(
            replace(part, condition=only if part.condition == everyone else And((part.condition, only)))
            for part in found.parts
        )
    )


def _decimal(text: str) -> Decimal:
    number = number_of_text(text)
    if number is None:
        raise QueryError(f"a wavelet must name an attribute and three numbers, got {text!r} for a number")
    return number


# What was given, read


def _condition(where: str | None, conditions: Mapping[str, object]) -> Condition:
    parts: list[Condition] = [] if where is None else [_text(where)]
    for name, given in conditions.items():
        parts.append(_attribute_condition(name, given))
    return parts[0] if len(parts) == 1 else And(tuple(parts))


def condition_of(where: str | Mapping[str, object] | Question | None) -> Condition:
    """A condition from a text, from conditions as in ``count``, or from a count; of None, what is always true."""
    if where is None:
        return And(())
    if isinstance(where, Mapping):
        return _condition(None, where)
    if isinstance(where, Question):
        if len(where.parts) != 1 or where.parts[0].factors or where.parts[0].weight != 1:
            raise QueryError("where must be a single count, not a total or a sum of counts")
        return where.parts[0].condition
    return _text(where)


def _text(where: object) -> Condition:
    if not isinstance(where, str):
        raise QueryError(f"conditions must be a text, got {type(where).__name__}")
    return parse(where)


def _attribute_condition(name: str, given: object) -> Condition:
    if isinstance(given, tuple):
        return _range(name, given)
    if isinstance(given, list | set | frozenset):
        return OneOf(name, tuple(given))
    return OneOf(name, (given,))


def _range(name: str, given: tuple[Any, ...]) -> Range:
    if len(given) != 2:
        raise QueryError(f"a range of {name!r} must be (low, high), got {len(given)} numbers; labels stand in a list")
    low, high = (None if bound is None else _bound(name, bound) for bound in given)
    return Range(name, low, high, with_last_edge=True)


def _bound(name: str, bound: object) -> Decimal:
    number = None if isinstance(bound, bool | str) else number_of_text(str(bound))
    if number is None:
        raise QueryError(f"a range of {name!r} must be of numbers, got {shown(bound)}; labels stand in a list")
    return number


def _label_numbers(attribute: Attribute) -> tuple[int, ...]:
    numbers = []
    for code, label in enumerate(attribute.labels):
        number = number_of_text(canonical_text(label) or "")
        if code in (attribute.other_code, attribute.missing_code):
            number = Decimal(0)
        if number is None or number != number.to_integral_value():
            raise QueryError(
                f"a total of {attribute.name!r} needs a whole number for each cell, and {shown(label)} is none; give"
                f" values={{{attribute.name!r}: [...]}}, {attribute.size} whole numbers"
            )
        numbers.append(int(number))
    return tuple(numbers)


# Queries as words


def describe(query: Linear, schema: Schema) -> str:
    """A query in words: the conditions where it is a count, otherwise what it is about.

    >>> from crosstally.schema import Attribute, Schema
    >>> schema = Schema([Attribute("sex", ["Female", "Male"]), Attribute("age", edges=[0, 18, 65, 120])])
    >>> describe(count("sex = Male and age >= 18").query(schema), schema)
    'age >= 18 and sex = Male'
    """
    if len(query.terms) == 1 and query.terms[0].weight == 1:
        factors = query.terms[0].factors
        conditions = [cells_in_words(schema[name], values) for name, values in factors if set(values) <= {0, 1}]
        weighed = [(name, values) for name, values in factors if not set(values) <= {0, 1}]
        if not weighed:
            return " and ".join(conditions) or "all rows"
        call = _call_in_words(weighed, schema)
        if call is not None:
            return f"{call} where {' and '.join(conditions)}" if conditions else call
    names = ", ".join(query.attributes)
    return f"a sum over {names}" if names else "a sum"


def _call_in_words(factors: Sequence[tuple[str, tuple[int, ...]]], schema: Schema) -> str | None:
    """A total or a Fourier coefficient, as the grammar writes it; None where its numbers are others."""
    if all(values == (1, -1) for _, values in factors):
        return f"fourier({', '.join(_quoted(name) for name, _ in factors)})"
    names = []
    for name, values in factors:
        own = tuple(number_of_text(label) or Decimal(0) for label in schema[name].labels)
        times = next((k for k in (1, 2, 3, 4) if tuple(number**k for number in own) == values), None)
        if times is None:
            return None
        names += [_quoted(name)] * times
    return f"total({', '.join(names)})"


def cells_in_words(attribute: Attribute, values: Sequence[int]) -> str:
    """The cells whose value is not 0, as a condition of the grammar."""
    chosen = [code for code, value in enumerate(values) if value]
    name = _quoted(attribute.name)
    bins = len(attribute.edges) - 1
    if attribute.edges and chosen and chosen[-1] < bins and chosen == list(range(chosen[0], chosen[-1] + 1)):
        low, high = (canonical_text(attribute.edges[i]) for i in (chosen[0], chosen[-1] + 1))
        upper = f"{name} <= {high}" if chosen[-1] == bins - 1 else f"{name} < {high}"
        if chosen[0] == 0:
            return upper
        return f"{name} >= {low}" if chosen[-1] == bins - 1 else f"{low} <= {upper}"
    labels = [_quoted(attribute.labels[code]) for code in chosen]
    return f"{name} = {labels[0]}" if len(labels) == 1 else f"{name} in {{{_listed(labels)}}}"


def _listed(labels: Iterable[str]) -> str:
    return ", ".join(labels)


def _quoted(text: str) -> str:
    """A name or label as the grammar takes it."""
    plain = text and not any(c.isspace() or c in "<>=!(){},\"'" for c in text)
    plain = plain and text.lower() not in ("and", "or", "not", "in")
    return text if plain else '"' + text.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class Where:
    """The cells in which a condition is true, as disjoint boxes, and the condition as text.

    Attributes of which every cell is in are not named by the boxes, so they need not be in a table that answers it.

    >>> from crosstally.schema import Attribute
    >>> schema = Schema([Attribute("sex", ["Female", "Male"]), Attribute("age", edges=[0, 18, 65, 120])])
    >>> where = Where.of("age >= 18 and sex in {Female, Male}", schema)
    >>> where.attributes, where.chosen(("sex", "age"))
    (('age',), array([[False,  True,  True]]))
    """

    text: str
    boxes: tuple[Box, ...]
    schema: Schema

    @classmethod
    def of(cls, given: str | Mapping[str, object] | Question, schema: Schema) -> Where:
        """From a text, conditions as in ``count``, or a count. Raises where no row can satisfy it."""
        boxes = [_restricting(box, schema) for box in condition_of(given).boxes(schema)]
        text = given.strip() if isinstance(given, str) else _in_words(boxes, schema)
        if not boxes:
            raise QueryError(
                f"no row can satisfy {shown(text) if text else 'the condition'}: no combination of values does"
            )
        return cls(text, tuple(boxes), schema)

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attributes that it restricts, in the schema's order."""
        return self.schema.ordered(sorted({name for box in self.boxes for name in box}))

    def possible(self, name: str) -> frozenset[int]:
        """The codes that an attribute can have where it is true."""
        every = frozenset(range(self.schema[name].size))
        return frozenset().union(*(box.get(name, every) for box in self.boxes))

    def chosen(self, names: Sequence[str]) -> NDArray[np.bool_]:
        """Where it is true in a table over ``names``, which hold all its attributes.

        There is an axis for each name, of length one where the attribute does not matter.
        """
        own = self.attributes
        out = np.zeros([self.schema[name].size if name in own else 1 for name in names], np.bool_)
        for box in self.boxes:
            sides = [sorted(box[name]) if name in box else range(out.shape[axis]) for axis, name in enumerate(names)]
            out[np.ix_(*sides)] = True
        return out


def _restricting(box: Box, schema: Schema) -> Box:
    return {name: cells for name, cells in box.items() if len(cells) < schema[name].size}


def _in_words(boxes: Sequence[Box], schema: Schema) -> str:
    """A text of the grammar that says the same."""
    parts = [
        " and ".join(
            cells_in_words(schema[name], [int(code in cells) for code in range(schema[name].size)])
            for name, cells in box.items()
        )
        for box in boxes
    ]
    return parts[0] if len(parts) == 1 else " or ".join(f"({part})" for part in parts)
