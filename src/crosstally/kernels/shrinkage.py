"""Cells shrunk towards guesses of them by a mixture of normals, and the tables of views to and from coefficients."""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import math

import numpy as np
from numba import njit

from crosstally.kernels.helmert import expand, project
from crosstally.typing import Floats, Integers

_NEGLIGIBLE = -40.0
"""Components whose exponent is this far below the best add nothing: e^-40 is 4e-18."""

_STEP_WIDTH_SQUARED = 0.35**2
"""The same as in ``inference.mixture``: the variance of a small count is at most this times its squared mean."""


@njit("void(float64[::1], int64[:, ::1], float64[::1], int64[::1], float64[:, ::1])", cache=True)
def view_tables(coefficients: Floats, places: Integers, factors: Floats, sizes: Integers, out: Floats) -> None:
    """The table of each view, a row each."""
    for v in range(len(places)):
        for c in range(places.shape[1]):
            out[v, c] = coefficients[places[v, c]] * factors[c]
        expand(out[v], sizes)


@njit(
    "void(float64[:, ::1], int64[:, ::1], float64[::1], int64[::1], float64[::1], float64[::1], float64[::1])",
    cache=True,
)
def add_views(  # noqa: PLR0917 (a kernel gets arrays)
    tables: Floats,
    places: Integers,
    factors: Floats,
    sizes: Integers,
    weights: Floats,
    sums: Floats,
    total_weights: Floats,
) -> None:
    """Add the coefficients of tables, each times its view's weight, to sums, and the weights to theirs."""
    view = np.empty(places.shape[1])
    for v in range(len(places)):
        for c in range(len(view)):
            view[c] = tables[v, c]
        project(view, sizes)
        for c in range(len(view)):
            sums[places[v, c]] += weights[v] * factors[c] * view[c]
            total_weights[places[v, c]] += weights[v]


@njit("float64(float64, float64)", cache=True, inline="always")
def _component_variance(mean: float, width: float) -> float:
    """The variance of a component: that of a count, and its own relative width."""
    return min(mean, _STEP_WIDTH_SQUARED * mean * mean) + (width * mean) ** 2


@njit("void(float64[::1], float64[::1], float64[::1], float64[:, ::1], float64[:, ::1])", cache=True)
def component_likelihoods(noisy: Floats, guess: Floats, variances: Floats, components: Floats, out: Floats) -> None:
    """For each cell the likelihood of each component of the mixture, up to a factor of the cell's own."""
    for i in range(len(noisy)):
        best = -np.inf
        for k in range(components.shape[1]):
            mean = guess[i] * components[0, k]
            off = noisy[i] - mean
            out[i, k] = -0.5 * off * off / (variances[i] + _component_variance(mean, components[1, k]))
            best = max(best, out[i, k])
        for k in range(components.shape[1]):
            variance = variances[i] + _component_variance(guess[i] * components[0, k], components[1, k])
            near = out[i, k] > best + _NEGLIGIBLE
            out[i, k] = math.exp(out[i, k] - best) * math.sqrt(variances[i] / variance) if near else 0.0


@njit(
    "void(float64[:, ::1], float64[:, ::1], float64[::1], float64[:, ::1], float64[::1], float64[:, ::1],"
    " float64[::1])",
    cache=True,
)
def shrink_cells(  # noqa: PLR0917 (a kernel gets arrays)
    noisy: Floats, guess: Floats, variances: Floats, components: Floats, edges: Floats, weights: Floats, spread: Floats
) -> None:
    """Each cell becomes its posterior mean; ``noisy`` is changed.

    Args:
        noisy: The cells, a row for each view.
        guess: A smooth guess of each.
        variances: For each view the variance of the noise of a cell.
        components: How many times the guess a component has its mean, and its relative width: two rows.
        edges: Guesses between two of these share weights.
        weights: For each such stratum the weights of the components.
        spread: For each view the sum of the posterior variances of its cells; changed.
    """
    number = components.shape[1]
    exponents, own = np.empty(number), np.empty(number)
    for v in range(len(noisy)):
        noise = variances[v]
        spread[v] = 0.0
        for c in range(noisy.shape[1]):
            y, q = noisy[v, c], guess[v, c]
            stratum = 0
            while stratum < len(edges) and q > edges[stratum]:
                stratum += 1
            best = -np.inf
            for k in range(number):
                mean = q * components[0, k]
                own[k] = _component_variance(mean, components[1, k])
                exponents[k] = -0.5 * (y - mean) * (y - mean) / (noise + own[k])
                best = max(best, exponents[k])
            whole = first = second = 0.0
            for k in range(number):
                if exponents[k] > best + _NEGLIGIBLE:
                    mean = q * components[0, k]
                    gain = own[k] / (own[k] + noise)
                    share = math.exp(exponents[k] - best) * math.sqrt(1.0 - gain) * weights[stratum, k]
                    posterior = max(mean + (y - mean) * gain, 0.0)
                    whole += share
                    first += share * posterior
                    second += share * (posterior * posterior + gain * noise)
            if whole > 0.0:
                noisy[v, c] = first / whole
                spread[v] += max(second / whole - noisy[v, c] ** 2, 0.0)
            else:  # no component with any weight is near: the measurement itself is all there is
                noisy[v, c] = max(y, 0.0)
                spread[v] += noise
