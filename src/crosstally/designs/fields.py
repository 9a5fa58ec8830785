"""Finite fields: addition and multiplication tables of GF(q).

Elements are 0 .. q - 1; the digits of an element in base p are the coefficients of a polynomial over GF(p).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

__all__ = ["Field", "field_of", "prime_power", "prime_powers"]


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
