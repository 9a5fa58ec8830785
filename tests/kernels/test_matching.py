"""Texts matched with labels in compiled code, against a dictionary."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crosstally.sources.codes.values import LabelTexts


def codes(texts: list[str | None], labels: list[str], kind: pa.DataType | None = None) -> list[int]:
    """The codes of the texts, which stand before others that are not looked at."""
    layout = LabelTexts.of(labels)
    assert layout is not None
    column = pa.array([*texts, "x" * 40], kind or pa.string())
    found = layout.codes(column)
    assert len(found) >= len(texts)
    return found[: len(texts)].tolist()


LABELS = ["a", "b", "ab", "12345678", "12345679", "123456789", "1234567890123456", "123456789_123456", "1" * 17, "ä"]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_labels_and_texts_like_them(kind: pa.DataType) -> None:
    assert codes(LABELS, LABELS, kind) == list(range(10))
    near = [
        "",
        "c",
        "aa",
        "1234567",
        "12345670",
        "123456788",
        "1234567880123456",
        "1" * 16,
        "1" * 18,
        "a\0",
        "ä\0",
        "A",
    ]
    assert codes(near, LABELS, kind) == [10] * len(near)
    shifted = [text for label in LABELS for text in ("?" * (len(label) % 7), label)]
    expected = [code for label in range(10) for code in (10, label)]
    assert codes(shifted, LABELS, kind) == expected


def test_a_difference_in_the_middle_of_a_long_text() -> None:
    label = "abcdefgh" * 5
    texts = [label[:i] + "?" + label[i + 1 :] for i in range(40)]
    assert codes([label, *texts], [label, "x"]) == [0] + [2] * 40


def test_slices_and_nulls() -> None:
    column = pa.array(["b", None, "a", "", "b", "c", "x" * 40]).slice(1)
    layout = LabelTexts.of(["a", "b"])
    assert layout is not None
    found = layout.codes(column)
    assert found[1:5].tolist() == [0, 2, 1, 2]  # a null has no meaning here


def test_texts_at_the_end_of_memory_are_left_to_others() -> None:
    layout = LabelTexts.of(["a", "b"])
    assert layout is not None
    for number in range(40):
        column = pa.array(["a", "b"] * number, pa.string())
        buffers = [None, column.buffers()[1], pa.py_buffer(b"ab" * number)]  # not a byte more than there are letters
        exact = pa.Array.from_buffers(pa.string(), 2 * number, buffers)
        found = layout.codes(exact)
        assert 2 * number - 24 <= len(found) <= max(2 * number - 8, 0)
        assert found.tolist() == ([0, 1] * number)[: len(found)]


def test_memory_that_is_not_aligned_is_left_to_others() -> None:
    layout = LabelTexts.of(["a", "b"])
    assert layout is not None
    column = pa.array(["a"] * 99)
    moved = pa.py_buffer(b"?" + b"a" * 99 + b"?" * 24).slice(1)
    assert len(layout.codes(pa.Array.from_buffers(pa.string(), 99, [None, column.buffers()[1], moved]))) == 0


def test_labels_that_do_not_fit() -> None:
    assert LabelTexts.of([str(i) for i in range(255)]) is None
    assert LabelTexts.of(["x" * 257, "y"]) is None
    assert LabelTexts.of(["12345678" + middle + "12345678" for middle in "ab"]) is None  # the same key


def test_as_many_labels_as_fit() -> None:
    labels = [f"label {i}" for i in range(254)]
    assert codes([*labels, "label 254"], labels) == list(range(255))


TEXT = st.text(st.sampled_from("ab\0é1"), max_size=20)


@settings(max_examples=60, deadline=None)
@given(st.lists(TEXT, max_size=30), st.lists(TEXT.filter(bool), min_size=1, max_size=6, unique=True))
def test_any_texts(texts: list[str], labels: list[str]) -> None:
    layout = LabelTexts.of(labels)
    if layout is None:
        return
    column = pa.array([*texts, *labels, "x" * 40])
    found = layout.codes(column)[: len(texts) + len(labels)]
    expected = [labels.index(text) if text in labels else len(labels) for text in [*texts, *labels]]
    assert found.tolist() == expected
    assert found.dtype == np.uint8
