"""Questions from Python and from text, resolved by hand, and hostile texts."""

from __future__ import annotations

import random

import numpy as np
import pytest

import crosstally as ct
from crosstally.budget import Neighbours
from crosstally.errors import QueryError
from crosstally.query.conditions import And, Condition, Not, OneOf, Or, Range
from crosstally.query.grammar import parse
from crosstally.query.linear import Linear, Term
from crosstally.query.question import describe, fourier, query_of, wavelet
from crosstally.schema import Attribute, Outside, Schema

SCHEMA = Schema(
    [
        Attribute("sex", ["Female", "Male"]),
        Attribute("âge", edges=[0, 18, 30, 65, 120], missing=True),
        Attribute("lieu de vie", ["Nord", "L'Est", "and"], outside=Outside.OTHER),
        Attribute("children", ["0", "1", "2", "3"], missing=True),
    ]
)


def term(weight: int = 1, **factors: tuple[int, ...]) -> Term:
    return Term(weight, tuple(factors.items()))


def cells(text: str) -> np.ndarray:
    """What one row adds, over all attributes."""
    query = query_of(text, SCHEMA)
    values = query.row_values(SCHEMA)
    axes = [SCHEMA[name].size if name in query.attributes else 1 for name in sorted(SCHEMA.names)]
    return np.broadcast_to(values.reshape(axes), [SCHEMA[name].size for name in sorted(SCHEMA.names)])


def test_counts_from_python() -> None:
    assert ct.count(sex="Female", âge=(18, 65)).query(SCHEMA) == Linear((term(sex=(1, 0), âge=(0, 1, 1, 0, 0)),))
    assert ct.count().query(SCHEMA) == Linear((Term(1, ()),))
    assert ct.count(children=[0, "2.0", "(missing)"]).query(SCHEMA) == Linear((term(children=(1, 0, 1, 0, 1)),))
    assert ct.count(children=(1, 3)).query(SCHEMA) == Linear((term(children=(0, 1, 1, 0, 0)),))
    assert ct.count(âge=(65, 120)).query(SCHEMA) == Linear((term(âge=(0, 0, 0, 1, 0)),))
    assert ct.count(âge=(None, 18)).query(SCHEMA) == Linear((term(âge=(1, 0, 0, 0, 0)),))
    assert ct.count(children=[]).query(SCHEMA) == Linear((Term(0, ()),))


def test_totals_and_sums() -> None:
    assert ct.total("children", where="sex = Male").query(SCHEMA) == Linear(
        (term(children=(0, 1, 2, 3, 0), sex=(0, 1)),)
    )
    assert ct.total("children", "children").query(SCHEMA) == Linear((term(children=(0, 1, 4, 9, 0)),))
    middle = {"âge": [9, 24, 47, 92, 0]}
    asked = ct.total("âge", where={"âge": (18, 65)}, values=middle)
    assert asked.query(SCHEMA) == Linear((term(âge=(0, 24, 47, 0, 0)),))
    assert asked.query(SCHEMA).sensitivity(SCHEMA, Neighbours.ADD_REMOVE).l1 == 47
    both = ct.total("children", where=ct.count(sex="Female")) + -2 * ct.count()
    assert both.query(SCHEMA) == Linear((term(children=(0, 1, 2, 3, 0), sex=(1, 0)), Term(-2, ())))
    assert (-ct.count()).query(SCHEMA) == Linear((Term(-1, ()),))


def test_fourier_and_wavelet() -> None:
    binary = Schema([Attribute("a", ["0", "1"]), Attribute("b", ["0", "1"]), Attribute("c", edges=[0, 1, 2, 4])])
    assert fourier("a", "b").query(binary).row_values(binary).tolist() == [[1, -1], [-1, 1]]
    assert wavelet(c=(0, 2, 4)).query(binary).row_values(binary).tolist() == [1, 1, -1]
    two = Schema([Attribute("x", ["0", "1", "2"]), Attribute("y", ["0", "1"])])
    assert wavelet(x=(0, 1, 3), y=(0, 1, 2)).query(two).row_values(two).tolist() == [[1, -1], [-1, 1], [-1, 1]]
    with pytest.raises(QueryError, match="one for each of its 3 cells, got 2"):
        fourier("c").query(binary)


TEXTS = {
    "18 <= âge < 30 and sex = Female": And(
        (
            And((Range("âge", 18, None, with_high=True), Range("âge", None, 30, with_low=False))),
            OneOf("sex", ("Female",)),
        )
    ),
    "sex = Female OR NOT children in {1,2}": Or((OneOf("sex", ("Female",)), Not(OneOf("children", ("1", "2"))))),
    '"lieu de vie" = "and"': OneOf("lieu de vie", ("and",)),
    "'lieu de vie' = 'L''Est'": OneOf("lieu de vie", ("L'Est",)),
    "children not in {3}": Not(OneOf("children", ("3",))),
    "children != 3": Not(OneOf("children", ("3",))),
    "(sex==Male)": OneOf("sex", ("Male",)),
    "30 > âge >= 18": And((Range("âge", None, 30, with_low=False), Range("âge", 18, None, with_high=True))),
    "âge = [18,30.0)": OneOf("âge", ("[18, 30)",)),
    "âge in {[ 18 , 30 ), '[65, 120]'}": OneOf("âge", ("[18, 30)", "[65, 120]")),
    "(children = (missing)) and not (sex = Male)": And(
        (OneOf("children", ("(missing)",)), Not(OneOf("sex", ("Male",))))
    ),
    "children > 1": Range("children", 1, None, with_low=False, with_high=False),
}


@pytest.mark.parametrize("text", TEXTS)
def test_texts_say_what_they_say(text: str) -> None:
    assert parse(text) == TEXTS[text]
    assert cells(text).tolist() == _cells_of(TEXTS[text]).tolist()


def _cells_of(condition: object) -> np.ndarray:
    """The same from the condition, cell by cell, by the meaning of and, or, not."""
    names = sorted(SCHEMA.names)
    out = np.zeros([SCHEMA[name].size for name in names], int)
    for place in np.ndindex(*out.shape):
        out[place] = _true(condition, {name: SCHEMA[name].labels[i] for name, i in zip(names, place, strict=True)})
    return out


def _true(condition: object, row: dict[str, str]) -> bool:
    match condition:
        case And(parts):
            return all(_true(part, row) for part in parts)
        case Or(parts):
            return any(_true(part, row) for part in parts)
        case Not(part):
            return not _true(part, row)
        case OneOf(attribute, labels):
            return row[attribute] in labels
        case Range():
            text = row[condition.attribute].strip("[])").split(",")[0]
            if not text.isdigit():
                return False
            number = int(text)
            low = condition.low is None or number > condition.low or (condition.with_low and number == condition.low)
            return low and (condition.high is None or number < condition.high)
    raise AssertionError


@pytest.mark.parametrize("seed", range(40))
def test_any_condition_holds_in_its_boxes_and_nowhere_else(seed: int) -> None:
    random.seed(seed)

    def condition(depth: int) -> Condition:
        kind = random.choice(["and", "or", "not", "set", "set"] if depth else ["set"])
        if kind == "not":
            return Not(condition(depth - 1))
        if kind in ("and", "or"):
            parts = tuple(condition(depth - 1) for _ in range(random.randint(1, 3)))
            return And(parts) if kind == "and" else Or(parts)
        name = random.choice(SCHEMA.names)
        return OneOf(name, tuple(label for label in SCHEMA[name].labels if random.random() < 0.5))

    made = condition(3)
    found = np.zeros([SCHEMA[name].size for name in sorted(SCHEMA.names)], int)
    for box in made.boxes(SCHEMA):
        index = [sorted(box.get(name, range(SCHEMA[name].size))) for name in sorted(SCHEMA.names)]
        found[np.ix_(*index)] += 1
    assert found.tolist() == _cells_of(made).tolist()


MISTAKES = {
    "": "at position 1: expected an attribute or a number, got the end",
    "sex =": "at position 6: expected a value after '=', got the end",
    "sex = Fem": "'sex' has no label 'Fem'; it has Female, Male",
    "sex Male": "at position 5: expected =, !=, <, <=, >, >= or in after 'sex' (names with blanks need quotes), got",
    "sex and": "at position 5: expected =, !=, <, <=, >, >= or in after 'sex', got 'and'",
    "âge = [18, 31)": "'âge' has no label '[18, 31)'; it has [0, 18), [18, 30), [30, 65), [65, 120]",
    "âge = [18, 30": "at position 10: expected 'and', 'or' or the end",
    "18 <= agee": "at position 7: unknown attribute 'agee'",
    "18 <= âge < Male": "at position 13: expected a number after '<', got 'Male'",
    "18 <= âge > 3": "at position 11: expected a bound on the other side",
    "19 <= âge": "bounds must be edges of its bins, got 19; edges are 0, 18, 30, 65, 120",
    "âge < 120": "the last bin is [65, 120] and holds 120; use <=",
    "âge <= 30": "bins do not hold their upper edge; use < with an edge",
    "âge > 18": "bins hold their lower edge; use >= with an edge",
    "sex < 3": "none of its labels is a number; use = or in",
    "(sex = Male": "at position 12: expected ')' for the '(' at position 1, got the end",
    "sex = Male)": "at position 11: expected 'and', 'or' or the end",
    "sex = 'Male": "at position 7: a quote that is never closed",
    "sex in Male": "at position 8: expected '{' before the values",
    "sex in {Male": "at position 13: expected '}' after the values",
    "sex not Male": "at position 9: expected 'in' after 'not'",
    "sex ! Male": "at position 5: an unexpected '!'",
    "3 < 4": "at position 5: expected an attribute after '<', got '4'",
    "not " * 60 + "sex = Male": "nested more than 50 deep",
    "(" * 5000: "nested more than 50 deep",
    "x" * 20_000: "at most 10,000 characters, got 20,000",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_is_told_in_one_line(text: str) -> None:
    with pytest.raises(QueryError) as caught:
        query_of(text, SCHEMA)
    assert MISTAKES[text] in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ct.count(sex=("a", "b")), "must be of numbers"),
        (lambda: ct.count(sex=(1, 2, 3)), r"must be \(low, high\)"),
        (ct.total, "at least one attribute"),
        (lambda: ct.total("sex").query(SCHEMA), "'Female' is none"),
        (lambda: ct.total("âge").query(SCHEMA), "needs a whole number for each cell"),
        (lambda: ct.total("sex", values={"sex": [1]}).query(SCHEMA), "2 cells, got 1"),
        (lambda: ct.total("sex", values={"age": [1]}), "of which there is no total"),
        (lambda: ct.total("sex", where=ct.count() + ct.count()), "a single count"),
        (lambda: ct.count(3), "must be a text"),
        (lambda: wavelet(a=(1, 2)), "low, middle, high"),
        (lambda: query_of(3, SCHEMA), r"ct\.count"),
    ],
)
def test_mistakes_from_python(make, words: str) -> None:
    with pytest.raises(QueryError, match=words):
        make()


PIECES = [
    "sex", "âge", '"lieu de vie"', "children", "Male", "Female", "18", "30", "-1e9", "=", "<", "<=", ">", ">=", "!=",
    "and", "or", "not", "in", "{", "}", "(", ")", ",", "'", '"', "\x00", "\n", "é", "🙂", "1e999999999", "nan",
    "!", "\\",
]  # fmt: skip


@pytest.mark.parametrize("number", [500, pytest.param(10_000, marks=pytest.mark.verify)])
def test_hostile_texts_give_a_question_or_one_line(number: int) -> None:
    random.seed(number)
    messages = []
    for i in range(number):
        if i % 3 == 1:  # a good one with a piece changed
            parts = random.choice(list(TEXTS)).split(" ")
            parts[random.randrange(len(parts))] = random.choice(PIECES)
            text = " ".join(parts)
        elif i % 3:
            text = random.choice([" ", ""]).join(random.choices(PIECES, k=random.randint(0, 12)))
        else:
            text = "".join(map(chr, random.choices([*range(32, 127), *range(0x110000 - 40, 0x110000)], k=20)))
        try:
            query_of(text, SCHEMA)
        except QueryError as error:
            messages.append(str(error))
    assert 0 < len(messages) < number
    assert not any("\n" in message for message in messages)


def test_words_of_a_query_are_a_question_again() -> None:
    texts = [
        "sex = Male", "18 <= âge < 65", "âge >= 65", "âge < 30", "children in {1, 3}",
        '"lieu de vie" in {Nord, "L\'Est"}', 'children = "(missing)"',
        "total(children)", "total(children, children) where sex = Male and âge < 30", "fourier(sex)",
    ]  # fmt: skip
    for text in texts:
        query = query_of(text, SCHEMA)
        assert query_of(describe(query, SCHEMA), SCHEMA) == query
    assert describe(ct.count().query(SCHEMA), SCHEMA) == "all rows"
    assert describe(ct.total("children").query(SCHEMA), SCHEMA) == "total(children)"
    odd = ct.total("children", values={"children": range(5, 5 + SCHEMA["children"].size)})
    assert describe(odd.query(SCHEMA), SCHEMA) == "a sum over children"
    assert describe(Linear((Term(2, ()),)), SCHEMA) == "a sum"


def test_sums_are_questions_in_words() -> None:
    """Written out in Python beside the text."""
    for text, same in {
        "total(children)": ct.total("children"),
        " TOTAL ( children , children )": ct.total("children", "children"),
        "total(children) where sex = Male or âge < 18": ct.total("children", where="sex = Male or âge < 18"),
        "fourier(sex)": fourier("sex"),
        "wavelet(âge, 0, 18, 65)": wavelet(âge=(0, 18, 65)),
    }.items():
        assert query_of(text, SCHEMA) == same.query(SCHEMA), text
    halves = query_of("wavelet(âge, 0, 18, 65) where sex = Male", SCHEMA).terms
    assert [(term.weight, dict(term.factors)["sex"]) for term in halves] == [(1, (0, 1)), (-1, (0, 1))]
    named = ct.Schema([ct.Attribute("total", ["0", "1", "2"])])
    assert query_of("total = 1", named) == ct.count(total="1").query(named)
    assert query_of("total(total)", named) == ct.total("total").query(named)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("total()", "expected a value after '\\('"),
        ("total(children", "expected '\\)' for the '\\(' at position 6, got the end"),
        ("total(children) sex = Male", "expected 'where' or the end, got 'sex'"),
        ("total(nobody)", "unknown attribute 'nobody'"),
        ("total(sex)", "whole number"),
        ("wavelet(âge, 0, 18)", "an attribute and three numbers, such as"),
        ("wavelet(âge, a, 18, 65)", "got 'a' for a number"),
        ("sum(children)", "expected =, !=, <"),
    ],
)
def test_sums_that_are_none(text: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        query_of(text, SCHEMA)
