"""What a report says about a row: the matrix of probabilities of an oracle, found twice.

``defined_channel`` writes it down from what the oracle is said to do. ``device_channel`` runs the device's own code
down every path that its randomness can take, and adds up the probabilities of the paths. The two must be equal; the
loss is the largest log ratio between two rows of the matrix.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from itertools import combinations, product
from typing import Any

from crosstally.local import client

Channel = dict[tuple[int, ...], dict[int, Fraction]]
"""For each row of codes the probability of each answer."""

Law = Callable[[Mapping[str, Any], tuple[int, ...]], dict[int, Fraction]]


# From the device's code


class _Paths:
    """A source of randomness that takes every path once: it replays decisions, and then takes the first way on."""

    def __init__(self) -> None:
        self.taken: list[int] = []
        self.ways: list[list[Fraction]] = []
        self._at = 0

    def _decide(self, ways: list[Fraction]) -> int:
        if self._at == len(self.taken):
            self.taken.append(0)
            self.ways.append(ways)
        self._at += 1
        return self.taken[self._at - 1]

    def below(self, number: int) -> int:
        """One of so many numbers, all equally likely."""
        return self._decide([Fraction(1, number)] * number)

    def chance(self, probability: Fraction) -> bool:
        """True with a probability."""
        return self._decide([probability, 1 - probability]) == 0

    @property
    def probability(self) -> Fraction:
        """That of the path that was taken."""
        return math.prod((ways[i] for ways, i in zip(self.ways, self.taken, strict=True)), start=Fraction(1))

    def advance(self) -> bool:
        """Go on to the next path, from its start; False where there is none."""
        while self.taken and self.taken[-1] + 1 == len(self.ways[-1]):
            self.taken.pop()
            self.ways.pop()
        if self.taken:
            self.taken[-1] += 1
        self._at = 0
        return bool(self.taken)


def device_channel(oracle: Mapping[str, Any]) -> Channel:
    """The probability of each answer to each row, over all paths of the device's draw."""
    return {codes: _drawn(oracle, codes) for codes in _rows(oracle)}


def _drawn(oracle: Mapping[str, Any], codes: tuple[int, ...]) -> dict[int, Fraction]:
    found: dict[int, Fraction] = defaultdict(Fraction)
    paths, more = _Paths(), True
    while more:
        drawn = client.draw(oracle, codes, paths)
        found[drawn] += paths.probability
        more = paths.advance()
    return {each: probability for each, probability in found.items() if probability}


def _rows(oracle: Mapping[str, Any]) -> list[tuple[int, ...]]:
    return list(product(*(range(size) for size in oracle["sizes"])))


# From the definitions


def defined_channel(oracle: Mapping[str, Any]) -> Channel:
    """The probability of each answer to each row, as the oracle's definition has it."""
    law = _LAWS[oracle["kind"]]
    return {codes: law(oracle, codes) for codes in _rows(oracle)}


def _number(codes: Sequence[int], sizes: Sequence[int]) -> int:
    """The number of a cell, the last attribute fastest."""
    return sum(code * math.prod(sizes[i + 1 :]) for i, code in enumerate(codes))


def _randomised_response(oracle: Mapping[str, Any], codes: tuple[int, ...]) -> dict[int, Fraction]:
    cells, own, keep = math.prod(oracle["sizes"]), _number(codes, oracle["sizes"]), Fraction(oracle["keep"])
    return {cell: keep if cell == own else (1 - keep) / (cells - 1) for cell in range(cells)}


def _unary_encoding(oracle: Mapping[str, Any], codes: tuple[int, ...]) -> dict[int, Fraction]:
    cells, own = math.prod(oracle["sizes"]), _number(codes, oracle["sizes"])
    chances = [Fraction(oracle["own" if cell == own else "other"]) for cell in range(cells)]
    return {
        sum(bit << cell for cell, bit in enumerate(bits)): math.prod(
            (chance if bit else 1 - chance for bit, chance in zip(bits, chances, strict=True)), start=Fraction(1)
        )
        for bits in product((0, 1), repeat=cells)
    }


def _local_hashing(oracle: Mapping[str, Any], codes: tuple[int, ...]) -> dict[int, Fraction]:
    buckets, digits, keep = oracle["buckets"], oracle["digits"], Fraction(oracle["keep"])
    own, functions = _number(codes, oracle["sizes"]), buckets**digits
    out = {}
    for function, value in product(range(functions), range(buckets)):
        hashed = (
            sum((own // buckets**i % buckets) * (function // buckets**i % buckets) for i in range(digits)) % buckets
        )
        out[function * buckets + value] = (keep if value == hashed else (1 - keep) / (buckets - 1)) / functions
    return out


def _subset_selection(oracle: Mapping[str, Any], codes: tuple[int, ...]) -> dict[int, Fraction]:
    cells, own = math.prod(oracle["sizes"]), _number(codes, oracle["sizes"])
    members, keep = oracle["members"], Fraction(oracle["keep"])
    inside, outside = keep / math.comb(cells - 1, members - 1), (1 - keep) / math.comb(cells - 1, members)
    return {
        sum(1 << cell for cell in chosen): inside if own in chosen else outside
        for chosen in combinations(range(cells), members)
    }


def _hadamard_response(oracle: Mapping[str, Any], codes: tuple[int, ...]) -> dict[int, Fraction]:
    own, order, keep = _number(codes, oracle["sizes"]), oracle["order"], Fraction(oracle["keep"])
    return {
        2 * row + bit: (keep if bit == (row & own).bit_count() % 2 else 1 - keep) / (order - 1)
        for row, bit in product(range(1, order), (0, 1))
    }


def _residual_bit(oracle: Mapping[str, Any], codes: tuple[int, ...]) -> dict[int, Fraction]:
    orders, keep = oracle["orders"], Fraction(oracle["keep"])
    sizes = [order - 1 for order in orders]
    out = {}
    for rows, bit in product(product(*(range(size) for size in sizes)), (0, 1)):
        sign = sum(((row + 1) & code).bit_count() for row, code in zip(rows, codes, strict=True)) % 2
        out[2 * _number(rows, sizes) + bit] = (keep if bit == sign else 1 - keep) / math.prod(sizes)
    return out


def _each_attribute(oracle: Mapping[str, Any], codes: tuple[int, ...]) -> dict[int, Fraction]:
    sizes, keeps = oracle["sizes"], [Fraction(keep) for keep in oracle["keeps"]]
    return {
        _number(told, sizes): math.prod(
            (
                keep if value == code else (1 - keep) / (size - 1)
                for value, code, size, keep in zip(told, codes, sizes, keeps, strict=True)
            ),
            start=Fraction(1),
        )
        for told in product(*(range(size) for size in sizes))
    }


_LAWS: dict[str, Law] = {
    "randomised-response": _randomised_response,
    "unary-encoding": _unary_encoding,
    "local-hashing": _local_hashing,
    "subset-selection": _subset_selection,
    "hadamard-response": _hadamard_response,
    "residual-bit": _residual_bit,
    "each-attribute": _each_attribute,
}


# Losses


def largest_ratio(channel: Channel) -> Fraction | None:
    """The largest ratio between the probabilities of one answer to two rows; None where one of them is impossible."""
    answers = {answer for law in channel.values() for answer in law}
    worst = Fraction(1)
    for answer in answers:
        chances = [law.get(answer, Fraction(0)) for law in channel.values()]
        if min(chances) == 0:
            return None
        worst = max(worst, max(chances) / min(chances))
    return worst


def keeps_epsilon(ratio: Fraction, epsilon: Fraction) -> bool:
    """Whether a ratio is at most e^epsilon: compared with a number just below that, of 40 digits."""
    context = Context(prec=40, rounding=ROUND_FLOOR)
    below = context.exp(context.divide(Decimal(epsilon.numerator), Decimal(epsilon.denominator)))
    return ratio <= Fraction(context.next_minus(below))
