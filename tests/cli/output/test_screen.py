"""Paragraphs on a terminal: where lines end, and what stands together."""

from __future__ import annotations

from io import StringIO

from crosstally.cli.output.screen import Screen, kept_together


def said(text: str, *, width: int, indent: int = 0, hang: int = 0) -> list[str]:
    written = StringIO()
    Screen(written, width=width).say(text, indent=indent, hang=hang)
    return written.getvalue().splitlines()


def test_lines_after_the_first_hang() -> None:
    assert said("- one two three four", width=12, indent=2, hang=2) == ["  - one two", "    three", "    four"]


def test_no_line_ends_between_a_label_and_its_number() -> None:
    labels = ", ".join(kept_together(text) for text in ("[0, 2000) 1,740", "[2000, 4000) 550", "x 7"))
    assert said(f"pay  {labels}", width=24, hang=4) == ["pay  [0, 2000) 1,740,", "    [2000, 4000) 550,", "    x 7"]


def test_a_long_label_is_parted_but_keeps_its_number() -> None:
    words = kept_together("Passenger of a motor vehicle that is in transport 36,812")
    assert said(words, width=30) == ["Passenger of a motor vehicle", "that is in transport 36,812"]
    assert said(words, width=22)[-1] == "transport 36,812"
