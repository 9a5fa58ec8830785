"""Uniform, Flat, Direct and Fourier (PriView, sections 3.1 to 3.3)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from crosstally.inference.joint_correction import clip_and_keep_total
from crosstally.typing import Floats


def uniform(truth: NDArray[np.int64]) -> Floats:
    """The rows spread evenly over all cells."""
    return np.full(truth.shape, truth.sum() / truth.size)


def flat_distance(attributes: int, *, rows: int, epsilon: float) -> float:
    """The expected L2 distance over the number of rows of any table summed from all 2^d noisy cells, at most 1.

    >>> round(flat_distance(32, rows=912_627, epsilon=1.0), 4)
    0.1016
    """
    return min(1.0, math.sqrt(2.0**attributes * 2) / epsilon / rows)


def flat(full: NDArray[np.int64], *, epsilon: float, random: np.random.Generator) -> Floats:
    """The table over all attributes with noise in every cell, from which all others are summed."""
    return np.asarray(full + random.laplace(0, 1 / epsilon, full.shape))


def direct(truth: NDArray[np.int64], *, attributes: int, epsilon: float, random: np.random.Generator) -> Floats:
    """The table with the noise it has when all tables of its number of attributes share epsilon; corrected."""
    scale = math.comb(attributes, truth.ndim) / epsilon
    return corrected(truth + random.laplace(0, scale, truth.shape), int(truth.sum()))


def fourier_coefficients(attributes: int, ways: int) -> int:
    """How many Fourier coefficients all tables of so many attributes are made of.

    >>> fourier_coefficients(16, 2)
    137
    """
    return sum(math.comb(attributes, s) for s in range(ways + 1))


def fourier(truth: NDArray[np.int64], *, attributes: int, epsilon: float, random: np.random.Generator) -> Floats:
    """The table from noisy Fourier coefficients, when all coefficients of as many attributes share epsilon; corrected.

    Each coefficient is a sum of +1 and -1 over the rows; it changes by one when a row comes or goes.
    """
    scale = fourier_coefficients(attributes, truth.ndim) / epsilon
    noise = random.laplace(0, scale, truth.shape)
    for axis in range(truth.ndim):
        first, second = np.split(noise, 2, axis=axis)
        noise = np.concatenate([first + second, first - second], axis=axis)
    return corrected(truth + noise / truth.size, int(truth.sum()))


def corrected(table: Floats, rows: int) -> Floats:
    """The table without negative cells and with so many rows: what differs is spread evenly, again until none is left.

    >>> corrected(np.array([9.0, 2.0, -5.0, 0.0]), 6)
    array([6., 0., 0., 0.])
    """
    return clip_and_keep_total(table + (rows - table.sum()) / table.size, table.ndim)
