"""The oracles: a code to a perturbed answer, a whole number below 2^64.

Each kind has its entry in ``KINDS``, at the end. Every draw is exact: there are no floating point numbers in it.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from .field_rules import fraction, list_of, need, whole

ANSWERS = 2**64  # a report holds an answer as an unsigned number of 64 bits
_MASK_CELLS = 64  # so a mask of cells has at most so many
_MOST_BUCKETS = 2**16  # a design takes primes up to 61; up to here trial division is quick


class SecureSource:
    """Exact draws from the operating system's secure source."""

    def below(self, number: int) -> int:
        """A whole number from 0 to number - 1, each equally likely."""
        return secrets.randbelow(number)

    def chance(self, probability: Fraction) -> bool:
        """True with exactly this probability."""
        return secrets.randbelow(probability.denominator) < probability.numerator

    def identity(self) -> bytes:
        """Sixteen random bytes."""
        return secrets.token_bytes(16)


class _Kind(NamedTuple):
    """What a device must know of a kind of oracle."""

    fields: tuple[str, ...]  # beside its sizes
    draw: Callable[[Mapping[str, Any], Sequence[int], Any], int]
    ratio: Callable[[Mapping[str, Any]], Fraction]  # see worst_ratio
    answers: Callable[[Mapping[str, Any], str], int]  # how many there are; checks the fields that are not probabilities
    most_cells: int = ANSWERS


def draw(oracle: Mapping[str, Any], codes: Sequence[int], source: Any) -> int:
    """The perturbed answer of an oracle to a row's codes."""
    return KINDS[oracle["kind"]].draw(oracle, codes, source)


def worst_ratio(oracle: Mapping[str, Any]) -> Fraction:
    """The largest ratio between the probabilities of one answer for two rows; below 1 where it makes no sense."""
    return KINDS[oracle["kind"]].ratio(oracle)


def cells_of(oracle: Mapping[str, Any]) -> int:
    """How many rows an oracle tells apart."""
    return math.prod(oracle["sizes"])


def _cell(oracle: Mapping[str, Any], codes: Sequence[int]) -> int:
    """The number of the cell of a view, the last attribute fastest."""
    place = 0
    for code, size in zip(codes, oracle["sizes"], strict=True):
        place = place * int(size) + code
    return place


def _kept(value: int, values: int, keep: str, source: Any) -> int:
    """The value itself with a probability, else each of the others equally likely."""
    if source.chance(Fraction(keep)):
        return value
    other: int = source.below(values - 1)
    return other + (other >= value)


def _kept_ratio(keep: str, members: int, values: int) -> Fraction:
    """The ratio of an answer that holds the own value to one that does not: each holds so many of all values."""
    kept = Fraction(keep)
    if not (0 < kept < 1 and 0 < members < values):
        return Fraction(0)
    return kept * (values - members) / ((1 - kept) * members)


def _randomised_response(oracle: Mapping[str, Any], codes: Sequence[int], source: Any) -> int:
    return _kept(_cell(oracle, codes), cells_of(oracle), oracle["keep"], source)


def _unary_encoding(oracle: Mapping[str, Any], codes: Sequence[int], source: Any) -> int:
    cell, own, other = _cell(oracle, codes), Fraction(oracle["own"]), Fraction(oracle["other"])
    return sum(source.chance(own if v == cell else other) << v for v in range(cells_of(oracle)))


def _unary_ratio(oracle: Mapping[str, Any]) -> Fraction:
    own, other = Fraction(oracle["own"]), Fraction(oracle["other"])
    return own * (1 - other) / (other * (1 - own)) if 0 < other <= own < 1 else Fraction(0)


def _local_hashing(oracle: Mapping[str, Any], codes: Sequence[int], source: Any) -> int:
    """A hash function of a small family, then randomised response among its values."""
    buckets, digits = oracle["buckets"], oracle["digits"]
    function = source.below(buckets**digits)
    hashed = _hash(_cell(oracle, codes), function, buckets, digits)
    return int(function * buckets + _kept(hashed, buckets, oracle["keep"], source))


def _hash(cell: int, function: int, buckets: int, digits: int) -> int:
    """The inner product of the digits of cell and function, modulo the number of buckets, a prime."""
    total = 0
    for _ in range(digits):
        total += (cell % buckets) * (function % buckets)
        cell, function = cell // buckets, function // buckets
    return total % buckets


def _hashing_answers(oracle: Mapping[str, Any], where: str) -> int:
    buckets = whole(oracle["buckets"], f"{where}.buckets", 2, _MOST_BUCKETS)
    need(all(buckets % d for d in range(2, math.isqrt(buckets) + 1)), f"{where}.buckets must be a prime")
    digits = whole(oracle["digits"], f"{where}.digits", 1, 64)
    need(buckets**digits >= cells_of(oracle), f"{where}.digits must tell all cells apart")
    return int(buckets ** (digits + 1))


def _subset_selection(oracle: Mapping[str, Any], codes: Sequence[int], source: Any) -> int:
    """A set of cells of fixed size, its own cell among them with a probability, all others equally likely."""
    cell, cells = _cell(oracle, codes), cells_of(oracle)
    inside = source.chance(Fraction(oracle["keep"]))
    chosen, wanted, left = int(inside) << cell, oracle["members"] - inside, cells - 1
    for other in range(cells):
        if other != cell:
            taken = wanted > 0 and source.chance(Fraction(wanted, left))
            chosen, wanted, left = chosen | taken << other, wanted - taken, left - 1
    return chosen


def _subset_answers(oracle: Mapping[str, Any], where: str) -> int:
    whole(oracle["members"], f"{where}.members", 1, cells_of(oracle) - 1)
    return _masks(oracle, where)


def _hadamard_response(oracle: Mapping[str, Any], codes: Sequence[int], source: Any) -> int:
    """A row of Hadamard's matrix that is not all ones, and the perturbed sign it has at the cell."""
    function = 1 + source.below(oracle["order"] - 1)
    sign = (function & _cell(oracle, codes)).bit_count() & 1
    return int(function * 2 + (sign if source.chance(Fraction(oracle["keep"])) else 1 - sign))


def _hadamard_answers(oracle: Mapping[str, Any], where: str) -> int:
    order = _order(cells_of(oracle))
    return 2 * whole(oracle["order"], f"{where}.order", order, order)


def _order(cells: int) -> int:
    """The order of Hadamard's matrix: the least power of two that is not below the number of cells."""
    return 1 << (cells - 1).bit_length()


def _residual_bit(oracle: Mapping[str, Any], codes: Sequence[int], source: Any) -> int:
    """For each attribute such a row of its own matrix; the perturbed product of the signs."""
    place = sign = 0
    for code, order in zip(codes, oracle["orders"], strict=True):
        function = source.below(order - 1) if order > 2 else 0
        place = place * (order - 1) + function
        sign ^= ((function + 1) & code).bit_count() & 1
    return place * 2 + (sign if source.chance(Fraction(oracle["keep"])) else 1 - sign)


def _residual_answers(oracle: Mapping[str, Any], where: str) -> int:
    sizes = oracle["sizes"]
    orders = list_of(oracle["orders"], f"{where}.orders", len(sizes), len(sizes))
    for order, size in zip(orders, sizes, strict=True):
        whole(order, f"{where}.orders", _order(size), _order(size))
    return int(2 * math.prod(order - 1 for order in orders))


def _each_attribute(oracle: Mapping[str, Any], codes: Sequence[int], source: Any) -> int:
    """Every attribute by randomised response with its share of epsilon, the last attribute fastest."""
    place = 0
    for code, size, keep in zip(codes, oracle["sizes"], oracle["keeps"], strict=True):
        place = place * int(size) + _kept(code, size, keep, source)
    return place


def _each_ratio(oracle: Mapping[str, Any]) -> Fraction:
    ratios = [_kept_ratio(keep, 1, size) for keep, size in zip(oracle["keeps"], oracle["sizes"], strict=True)]
    return math.prod(ratios, start=Fraction(1)) if min(ratios) >= 1 else Fraction(0)


def _each_answers(oracle: Mapping[str, Any], where: str) -> int:
    for keep in list_of(oracle["keeps"], f"{where}.keeps", len(oracle["sizes"]), len(oracle["sizes"])):
        fraction(keep, f"{where}.keeps")
    return cells_of(oracle)


def _rows(oracle: Mapping[str, Any], where: str) -> int:  # noqa: ARG001 (there is nothing to check)
    return cells_of(oracle)


def _masks(oracle: Mapping[str, Any], where: str) -> int:  # noqa: ARG001 (there is nothing to check)
    return int(1 << cells_of(oracle))


def _sign_ratio(oracle: Mapping[str, Any]) -> Fraction:
    return _kept_ratio(oracle["keep"], 1, 2)


KINDS = {
    "randomised-response": _Kind(
        ("keep",), _randomised_response, lambda oracle: _kept_ratio(oracle["keep"], 1, cells_of(oracle)), _rows
    ),
    "unary-encoding": _Kind(("own", "other"), _unary_encoding, _unary_ratio, _masks, _MASK_CELLS),
    "local-hashing": _Kind(
        ("buckets", "digits", "keep"),
        _local_hashing,
        lambda oracle: _kept_ratio(oracle["keep"], 1, oracle["buckets"]),
        _hashing_answers,
    ),
    "subset-selection": _Kind(
        ("members", "keep"),
        _subset_selection,
        lambda oracle: _kept_ratio(oracle["keep"], oracle["members"], cells_of(oracle)),
        _subset_answers,
        _MASK_CELLS,
    ),
    "hadamard-response": _Kind(("order", "keep"), _hadamard_response, _sign_ratio, _hadamard_answers),
    "residual-bit": _Kind(("orders", "keep"), _residual_bit, _sign_ratio, _residual_answers),
    "each-attribute": _Kind(("keeps",), _each_attribute, _each_ratio, _each_answers),
}
