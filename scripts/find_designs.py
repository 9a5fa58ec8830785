"""Search for a covering design, verify it, and print its line for ``src/crosstally/designs/found.txt``.

    python scripts/find_designs.py --points 45 --size 8 --cover 2 --seconds 60

Three searches take turns, each looking for fewer blocks than the best so far: base blocks that cover every orbit of
subsets under a rotation of the points (few base blocks make a large design, so large designs are in reach), blocks
without a symmetry, and a selection from the flats of an affine space where points and size are powers of one prime
power. Every turn takes more annealing steps than the last and another seed. What is found depends on the seconds and
on the machine; what is printed is a design on any.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from crosstally.designs import covering_design
from crosstally.designs.constructions import Found, orbit_numbers
from crosstally.designs.covers import (
    Blocks,
    Room,
    fewest_greedy,
    schonheim_bound,
    tidied,
    uncovered,
)
from crosstally.designs.geometry import affine_flats, prime_powers
from crosstally.errors import CrosstallyError
from crosstally_lab.design_search import annealed, selected

MOST_POINTS = 62  # a character of the table for each point: 0-9, A-Z, a-z
FIRST_STEPS, MOST_STEPS = 20_000, 20_000_000  # annealing steps of the first turn and of a long one (160 MB)


@dataclass(frozen=True, slots=True)
class Sought:
    """Blocks of a size, of so many points, that hold every ``cover`` points together."""

    points: int
    size: int
    cover: int

    def found(self, base: Sequence[Sequence[int]], cycle: int) -> Found:
        """The design with these base blocks under the rotation in cycles of this length."""
        return Found.from_base(base, points=self.points, size=self.size, cover=self.cover, cycle=cycle)

    def tidied(self, blocks: Blocks) -> Found:
        """The design of these blocks, without what it can spare."""
        return self.found(tidied(blocks, self.cover, Room.of_points(self.points, self.size)), 1)

    @property
    def bound(self) -> int:
        """A number of blocks below which there is no design."""
        return schonheim_bound(self.points, self.size, self.cover)


def designs(sought: Sought, *, seconds: float, seed: int) -> Iterator[Found]:
    """Designs, each with fewer blocks than the one before, until the bound is reached or the time is over."""
    end = time.monotonic() + seconds
    grown = fewest_greedy([2] * sought.points, 2**sought.size, sought.cover, limit=20_000, seeds=4)
    if grown is None:
        raise CrosstallyError("the greedy design has more than 20,000 blocks; take larger blocks or a smaller cover")
    best = sought.tidied(grown)
    yield best
    steps = FIRST_STEPS
    while best.number > sought.bound and time.monotonic() < end:
        for cycle in (0, *range(1, sought.points + 1)):
            if time.monotonic() >= end or best.number <= sought.bound:
                return
            seed += 1
            found = _turn(sought, best.number, cycle, steps, seed)
            if found is not None and found.number < best.number:
                best = found
                yield best
        steps = min(2 * steps, MOST_STEPS)


def _turn(sought: Sought, most: int, cycle: int, steps: int, seed: int) -> Found | None:
    """One search for fewer blocks than ``most``: from flats (cycle 0), or under a rotation (1: without a symmetry)."""
    points, size, cover = sought.points, sought.size, sought.cover
    if cycle == 0:
        pool = _flats(points, size)
        chosen = selected(pool, most - 1, points, cover, steps=steps, seed=seed) if len(pool) >= most - 1 else None
        return None if chosen is None else sought.tidied(tuple(tuple(pool[place]) for place in chosen))
    number = (most - 1) // cycle
    if number * cycle < sought.bound:
        return None  # so few orbits cannot cover, and one more would not be fewer blocks
    orbits = orbit_numbers(points, cover, cycle)
    base = annealed(number, points, size, cover, orbits=orbits, steps=steps, seed=seed)
    if base is None:
        return None
    return sought.tidied(base) if cycle == 1 else sought.found(base, cycle)


def _flats(points: int, size: int) -> list[list[int]]:
    """The flats with so many of so many points of an affine space, over the smallest field that has them; or none."""
    for q in prime_powers(size):
        space, flat = (next((d for d in range(1, 10) if q**d >= number), 0) for number in (points, size))
        if q**space == points and q**flat == size and flat < space:
            return [sorted(block) for block in affine_flats(space, q, flat).tolist()]
    return []


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the line of the best design found; say beside it how good it is."""
    parser = argparse.ArgumentParser(description="search for a covering design and print its line of found.txt")
    parser.add_argument("--points", type=int, required=True, help="attributes")
    parser.add_argument("--size", type=int, required=True, help="points of a block")
    parser.add_argument("--cover", type=int, required=True, help="how many points are together in some block, 2 to 4")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to search")
    parser.add_argument("--seed", type=int, default=1, help="another seed searches elsewhere")
    given = parser.parse_args(arguments)
    if not 2 <= given.cover <= given.size < given.points <= MOST_POINTS:
        parser.error(f"2 <= cover <= size < points <= {MOST_POINTS} must hold")
    try:
        known = len(covering_design(given.points, given.size, given.cover))
        sought = Sought(given.points, given.size, given.cover)
        for best in designs(sought, seconds=given.seconds, seed=given.seed):
            print(f"{best.number} blocks, cycle {best.cycle}", file=sys.stderr)
    except CrosstallyError as error:
        parser.error(str(error))
    blocks = best.blocks()
    if uncovered(blocks, given.points, given.cover) or max(map(len, blocks)) > given.size or len(blocks) != best.number:
        print(f"this is no design, which is a mistake in the search: {best.line()}", file=sys.stderr)
        return 1
    print(f"Schönheim's bound is {sought.bound}; covering_design makes {known}", file=sys.stderr)
    print(best.line())
    return 0


if __name__ == "__main__":
    sys.exit(main())
