"""Blocks of finite geometries: flats of affine and projective spaces, circles, orthogonal arrays, Witt designs.

Each function gives an array with one block a row; points are 0, 1, 2, ... .

Finite fields: addition and multiplication tables of GF(q).

Elements are 0 .. q - 1; the digits of an element in base p are the coefficients of a polynomial over GF(p).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from crosstally.typing import Integers


@dataclass(frozen=True, eq=False)
class Field:
    """The field of q elements, as tables."""

    plus: NDArray[np.int64]
    times: NDArray[np.int64]

    @property
    def order(self) -> int:
        """How many elements it has."""
        return len(self.plus)

    @cached_property
    def minus(self) -> NDArray[np.int64]:
        """The negative of each element."""
        negatives: NDArray[np.int64] = np.argmin(self.plus, axis=1)
        return negatives

    @cached_property
    def inverse(self) -> NDArray[np.int64]:
        """The inverse of each element; 0 for 0."""
        found = np.argmax(self.times == 1, axis=1)
        return np.where(np.arange(self.order) == 0, 0, found)

    def subfield(self, order: int) -> tuple[int, ...]:
        """The elements x with x^order = x."""
        return tuple(x for x in range(self.order) if self._power(x, order) == x)

    def _power(self, x: int, exponent: int) -> int:
        result = 1
        for _ in range(exponent):
            result = int(self.times[result, x])
        return result


def prime_power(q: int) -> tuple[int, int] | None:
    """The prime and the exponent when q is a prime power.

    >>> prime_power(8), prime_power(12)
    ((2, 3), None)
    """
    if q < 2:
        return None
    prime = next(p for p in range(2, q + 1) if q % p == 0)
    exponent, rest = 0, q
    while rest % prime == 0:
        exponent, rest = exponent + 1, rest // prime
    return (prime, exponent) if rest == 1 else None


@lru_cache
def prime_powers(limit: int) -> tuple[int, ...]:
    """The prime powers up to a limit, ascending.

    >>> prime_powers(11)
    (2, 3, 4, 5, 7, 8, 9, 11)
    """
    return tuple(q for q in range(2, limit + 1) if prime_power(q))


@lru_cache
def field_of(q: int) -> Field:
    """The field of q elements, q a prime power.

    >>> field_of(4).times.tolist()
    [[0, 0, 0, 0], [0, 1, 2, 3], [0, 2, 3, 1], [0, 3, 1, 2]]
    """
    factors = prime_power(q)
    if factors is None:
        raise ValueError(f"a field has a prime power of elements, got {q}")
    prime, degree = factors
    digits = np.arange(q)[:, np.newaxis] // prime ** np.arange(degree) % prime
    places = prime ** np.arange(degree)
    plus = ((digits[:, np.newaxis] + digits) % prime) @ places
    powers = _powers_of_generator(prime, degree)
    logarithms = np.zeros(q, np.int64)
    logarithms[powers] = np.arange(q - 1)
    times = np.array(powers)[(logarithms[:, np.newaxis] + logarithms) % (q - 1)]
    times[0, :] = times[:, 0] = 0
    return Field(plus, times)


def _powers_of_generator(prime: int, degree: int) -> list[int]:
    """1, g, g^2, ... for the first generator g found: a number when q is prime, otherwise x modulo a polynomial."""
    q = prime**degree
    if degree == 1:
        rows = ([pow(g, i, prime) for i in range(q - 1)] for g in range(1, prime))
    else:
        rows = (_powers_of_x(tail, prime) for tail in itertools.product(range(prime), repeat=degree))
    return next(row for row in rows if len(set(row)) == q - 1)


def _powers_of_x(tail: tuple[int, ...], prime: int) -> list[int]:
    """The powers of x where x^degree is the polynomial with these coefficients, lowest first."""
    degree = len(tail)
    element = [1] + [0] * (degree - 1)
    row = []
    for _ in range(prime**degree - 1):
        row.append(sum(c * prime**i for i, c in enumerate(element)))
        top = element[-1]
        element = [(c + top * r) % prime for c, r in zip([0, *element[:-1]], tail, strict=True)]
    return [] if 0 in row else row


@lru_cache(maxsize=32)
def affine_flats(dimension: int, q: int, flat: int) -> Integers:
    """The flats of a dimension in AG(dimension, q): any flat + 1 points lie in one of them.

    >>> affine_flats(2, 8, 1).shape, affine_flats(5, 2, 3).shape
    ((72, 8), (620, 8))
    """
    field = field_of(q)
    places = q ** np.arange(dimension)
    flats = []
    for basis in _reduced_bases(dimension, q, flat):
        directions = _span(basis, q)
        pivots = [int(np.flatnonzero(row)[0]) for row in basis]
        # One shift for each coset: zero where the basis has its pivots.
        free = [i for i in range(dimension) if i not in pivots]
        shifts = np.zeros((q ** len(free), dimension), np.int64)
        shifts[:, free] = np.array(list(itertools.product(range(q), repeat=len(free))))
        flats.append(field.plus[shifts[:, np.newaxis], directions] @ places)
    return np.sort(np.concatenate(flats), axis=1)


@lru_cache(maxsize=32)
def projective_flats(dimension: int, q: int, flat: int) -> Integers:
    """The flats of a dimension in PG(dimension, q): any flat + 1 points lie in one of them.

    >>> projective_flats(2, 7, 1).shape, projective_flats(3, 2, 2).shape
    ((57, 8), (15, 7))
    """
    places = q ** np.arange(dimension + 1)
    points = np.concatenate(_reduced_bases(dimension + 1, q, 1))
    number = np.full(q ** (dimension + 1), -1)
    number[points @ places] = np.arange(len(points))
    flats = [number[_span(basis, q) @ places] for basis in _reduced_bases(dimension + 1, q, flat + 1)]
    return np.sort(np.array([row[row >= 0] for row in flats]), axis=1)


def _reduced_bases(dimension: int, q: int, rank: int) -> list[Integers]:
    """One basis, in reduced echelon form, for each subspace of a rank of GF(q)^dimension."""
    bases = []
    for pivots in itertools.combinations(range(dimension), rank):
        free = [(i, j) for i, pivot in enumerate(pivots) for j in range(pivot + 1, dimension) if j not in pivots]
        for values in itertools.product(range(q), repeat=len(free)):
            basis = np.zeros((rank, dimension), np.int64)
            basis[range(rank), pivots] = 1
            for (i, j), value in zip(free, values, strict=True):
                basis[i, j] = value
            bases.append(basis)
    return bases


def _span(basis: Integers, q: int) -> Integers:
    field = field_of(q)
    span = np.zeros((1, basis.shape[1]), np.int64)
    for row in basis:
        multiples = field.times[:, row]
        span = field.plus[span[:, np.newaxis], multiples].reshape(-1, basis.shape[1])
    return span


@lru_cache(maxsize=8)
def circles(q: int, degree: int) -> Integers:
    """The images of PG(1, q) in PG(1, q^degree): any three points lie in exactly one; degree 2 is the inversive plane.

    >>> circles(3, 2).shape, circles(7, 2).shape
    ((30, 4), (350, 8))
    """
    order = q**degree
    triples = np.array(list(itertools.combinations(range(order + 1), 3)))
    others = [_image(order, x, triples) for x in field_of(order).subfield(q) if x > 1]
    rows: Integers = np.sort(np.column_stack([triples, *others]), axis=1)
    # Each circle is found from each of its triples: keep it where the triple is its first.
    first = (rows[:, :3] == triples).all(axis=1)
    return np.ascontiguousarray(rows[first])


def _image(order: int, x: int, triples: Integers) -> NDArray[np.int64]:
    """Where x goes when 0, 1 and infinity go to the three points; infinity has the number ``order``."""
    field = field_of(order)
    first, second, third = triples.T
    third_or_zero = np.where(third == order, 0, third)
    step = field.plus[second, field.minus[first]]
    # (w - a)(b - c) = x (w - c)(b - a): w = (a - m c) / (1 - m), m = x (b - a) / (b - c)
    ratio = field.times[field.times[x, step], field.inverse[field.plus[second, field.minus[third_or_zero]]]]
    above = field.plus[first, field.minus[field.times[ratio, third_or_zero]]]
    below = field.plus[1, field.minus[ratio]]
    finite = np.where(below == 0, order, field.times[above, field.inverse[below]])
    return np.where(third == order, field.plus[first, field.times[x, step]], finite)


def orthogonal_array(q: int, groups: int, strength: int) -> Integers:
    """Blocks with one point in each group of q points that cover any ``strength`` points of different groups.

    A block is a polynomial of degree below the strength: its value at each element of GF(q), and its leading
    coefficient; so there are at most q + 1 groups. Strength 2 is a transversal design.

    >>> orthogonal_array(3, 4, 2).shape
    (9, 4)
    """
    field = field_of(q)
    coefficients = np.array(list(itertools.product(range(q), repeat=strength)))
    columns = []
    for x in range(min(groups, q)):
        value = np.zeros(len(coefficients), np.int64)
        for coefficient in coefficients.T:
            value = field.plus[field.times[value, x], coefficient]
        columns.append(value)
    if groups > q:
        columns.append(coefficients[:, 0])
    return np.column_stack(columns) + q * np.arange(len(columns))


@lru_cache
def golay_words(p: int) -> Integers:
    """The supports of the words of least weight of a perfect Golay code: the Witt designs 4-(23,7,1) and 4-(11,5,1).

    >>> golay_words(2).shape, golay_words(3).shape
    ((253, 7), (66, 5))
    """
    length, weight, generator = {
        2: (23, 7, (1, 0, 1, 0, 1, 1, 1, 0, 0, 0, 1, 1)),
        3: (11, 5, (2, 0, 1, 2, 1, 1)),
    }[p]
    shifts = length - len(generator) + 1
    rows = np.array([(0,) * i + generator + (0,) * (shifts - 1 - i) for i in range(shifts)])
    words = np.array(list(itertools.product(range(p), repeat=shifts))) @ rows % p
    light = words[(words != 0).sum(axis=1) == weight] != 0
    return np.unique(np.nonzero(light)[1].reshape(-1, weight), axis=0)
