"""The search for covering designs, as it is run from the shell: what it prints is a design."""

from __future__ import annotations

import runpy
import string
from pathlib import Path

import pytest

from reference_designs import is_design

MAIN = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "find_designs.py"))["main"]
POINTS = string.digits + string.ascii_uppercase + string.ascii_lowercase


def expanded(line: str) -> tuple[list[int], set[tuple[int, ...]]]:
    """The numbers of a line and its blocks, each base block turned as often as its cycles are long."""
    *numbers, base = line.split(maxsplit=5)
    points, size, cover, number, cycle = map(int, numbers)
    moving, blocks = points - points % cycle, set()
    for word in base.split():
        block = [POINTS.index(character) for character in word]
        for _ in range(cycle):
            blocks.add(tuple(sorted(block)))
            block = [p // cycle * cycle + (p + 1) % cycle if p < moving and cycle > 1 else p for p in block]
    return [points, size, cover, number, cycle], blocks


@pytest.mark.parametrize(
    ("points", "size", "cover", "number"),
    [
        (9, 6, 2, 3),  # three pairs of thirds
        (8, 4, 3, 14),  # the planes of AG(3,2), selected from themselves
        (13, 4, 2, 13),  # the projective plane of order 3: one base block under a rotation
    ],
)
def test_the_printed_design_covers(points, size, cover, number, capsys) -> None:
    asked = ["--points", str(points), "--size", str(size), "--cover", str(cover), "--seconds", "30"]
    assert MAIN(asked) == 0
    numbers, blocks = expanded(capsys.readouterr().out.strip())
    assert numbers[:4] == [points, size, cover, number]
    assert len(blocks) == number
    assert is_design(sorted(blocks), points, size, cover)


def test_impossible_numbers_are_refused_in_one_line(capsys) -> None:
    with pytest.raises(SystemExit):
        MAIN(["--points", "5", "--size", "6", "--cover", "2"])
    assert "2 <= cover <= size < points <= 62 must hold" in capsys.readouterr().err
