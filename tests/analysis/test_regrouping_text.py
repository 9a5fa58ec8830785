"""Values put together, as text: what is read, what is written, and what is said about mistakes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crosstally.analysis.regrouping import groups_in_text, level_in_text, parse_regrouping
from crosstally.errors import QueryError


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("age: young = 17-24, 25-34", ("age", (("young", ("17-24", "25-34")),))),
        ("age:young=17-24,25-34;old=65+", ("age", (("young", ("17-24", "25-34")), ("old", ("65+",))))),
        ("age: minors = [0,18), [ 18.0, 30); rest = (missing)",
         ("age", (("minors", ("[0, 18)", "[18, 30)")), ("rest", ("(missing)",))))),
        (" age group : the young = Bread and butter", ("age group", (("the young", ("Bread and butter",)),))),
        ('"a:b": "x = y" = "p, q", \'it\'\'s\', don\'t know', ("a:b", (("x = y", ("p, q", "it's", "don't know")),))),
        ("hour: night = 23:00, 00:00", ("hour", (("night", ("23:00", "00:00")),))),
        ("town: canton", ("town", "canton")),
        ('town: "a = b"', ("town", "a = b")),
    ],
)  # fmt: skip
def test_texts_are_read(text: str, read: object) -> None:
    assert parse_regrouping(text) == read


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("age", "must begin with an attribute and a colon: 'age: young = 17-24'; got 'age'"),
        (": a = b", "must begin with an attribute and a colon"),
        ("age:", "at position 5: expected a group or a level, got the end"),
        ("age: young =", "at position 13: expected a value, got the end"),
        ("age: young = 17-24,", "at position 20: expected a value, got the end"),
        ("age: young = 17-24, , 3", "at position 21: expected a value, got ','"),
        ("age: young, old", "at position 11: expected '=' after 'young', got ','"),
        ("age: young = 1; old", "at position 20: expected '=' after 'old', got the end"),
        ("age: young = 1 = 2", "at position 16: expected ',', ';' or the end, got '='"),
        ("age: young = 'a' b", "at position 18: expected ',', ';' or the end, got 'b'"),
        ("age: young = 'a", "at position 14: a quote that is never closed"),
        ("age: '' = a", "at position 6: expected a group or a level, got ''"),
        ("age: " + "x" * 10_000, "a grouping must have at most 10,000 characters, got 10,005"),
    ],
)
def test_mistakes_are_said_with_their_place(text: str, said: str) -> None:
    with pytest.raises(QueryError) as error:
        parse_regrouping(text)
    assert said in str(error.value)


WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12) | st.sampled_from(
    ["[18, 30)", "[18,30)", "a: b", "'", '"', " x ", "a;b", "a=b", "a,b", "65+", "\n"]
)


@given(WORDS, st.lists(st.tuples(WORDS, st.lists(WORDS, min_size=1, max_size=3).map(tuple)), min_size=1).map(tuple))
def test_what_is_written_is_read_again(name: str, groups: tuple[tuple[str, tuple[str, ...]], ...]) -> None:
    assert parse_regrouping(groups_in_text(name, groups)) == (name, groups)
    assert parse_regrouping(level_in_text(name, groups[0][0])) == (name, groups[0][0])
