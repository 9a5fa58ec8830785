"""A covariance matrix for each attribute: along which contrasts the rows differ from the prior, learned from all sets.

The deviation of the rows from the prior in a set of attributes has a covariance: the set's own variance times the
Kronecker product of one matrix for each attribute, whose trace is the attribute's number of cells. Each matrix starts
as a mixture of two: the identity, and a matrix in which neighbouring labels are correlated, where the distance between
two labels is the prior mass between them. The weight of the two is learned, so the answers decide whether the order of
the labels matters. The matrix then moves towards what the answers show, held back by a prior that counts as much as one
answer about each cell. All of this takes a few steps of maximising the marginal likelihood. What is learned about an
attribute from some pairs helps in all other sets.

In the symbols of ``components``: b_S ~ N(0, v_S C_1 x ... x C_s), the Kronecker product over the attributes of S, with
C_a (cells of a, cells of a) and trace C_a = its cells. R_a is Cholesky's root, C_a = R_a R_a': this root is what is
called the loading of an attribute (``CovarianceModel.loadings``), and features hold it already, F_S (R_1 x ... x
R_s). With U_c (queries, cells of a) the features of S at cell c of its other attributes, and r = A^-1 (answers),

    shown_a = sum over S, c of v_S (U_c' r)(U_c' r)',   expected_a = sum over S, c of v_S U_c' A^-1 U_c   (cells, cells)

are the two sides of the gradient in C_a as seen from R_a. A step maps C_a to R_a X R_a' with X expected X = shown: the
matrix form of v <- v sqrt(shown / expected).

>>> ordered_covariance(np.array([0.5, 0.5])).round(2).tolist()  # half of the rows apart: exp(-0.5 / 0.3) = 0.19
[[1.0, 0.19], [0.19, 1.0]]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass

import numpy as np

from crosstally.notebook.history.components import CovarianceModel, Posterior
from crosstally.typing import Floats

# How far neighbours are alike: by e after this share of rows. Chosen; the answers say how much of it there is.
_REACH = 0.3
# The belief in even shares counts as this many answers. A larger number keeps a short history from trusting the order
# of labels.
_EVEN = 2.0
_LARGEST = 400  # limits time: values of an attribute up to which its matrix is learned. Each step takes the cube
_MOST_NUMBERS = 10_000_000  # limits time: longer histories learn no matrices; every cell deviates independently


def ordered_covariance(probabilities: Floats) -> Floats:
    """The covariance of deviations that change slowly along the order of the cells, in the form of queries' parts.

    The share of rows in a cell, over what the prior expects, goes with that in another as exp(-share between / 0.3).
    """
    # Cells stand on the line at the middle of their rows, in shares; the root of the prior turns relative to absolute
    middle = np.cumsum(probabilities) - probabilities / 2
    alike = np.exp(-np.abs(middle[:, None] - middle) / _REACH)
    root = np.sqrt(probabilities)
    return np.asarray(len(root) * root[:, None] * alike * root)


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """What answers show of an attribute's matrix, and what the model expects; both seen from its root."""

    shown: Floats
    _: KW_ONLY
    expected: Floats


def evidence(solution: Posterior) -> dict[int, Evidence]:
    """For each attribute's matrix the gradient of the likelihood, as two sides that are equal at the maximum."""
    structure, sizes = solution.structure, solution.structure.prior.schema.shape
    # Sums over all parts that hold the attribute, one matrix for each side
    found = {a: Evidence(np.zeros((sizes[a],) * 2), expected=np.zeros((sizes[a],) * 2)) for a in structure.loadings}
    for each, inverse_times_features in solution.inverse_times_features():
        variance = solution.variances[each.part]
        shape = tuple(sizes[a] for a in each.part)
        estimate = (solution.weights[each.rows] @ each.features).reshape(shape)
        tables, inverse = (rows.reshape(-1, *shape) for rows in (each.features, inverse_times_features))
        for axis, a in enumerate(each.part):
            if a in found:
                side = _flat(estimate, axis)
                found[a].shown[...] += variance * (side @ side.T)
                found[a].expected[...] += variance * (_flat(inverse, axis + 1) @ _flat(tables, axis + 1).T)
    return found


def _flat(table: Floats, axis: int) -> Floats:
    """One axis as rows, all others as columns."""
    return np.moveaxis(table, axis, 0).reshape(table.shape[axis], -1)


class Mixture:
    """The first matrix of each attribute, and the share of neighbours in it, which is learned."""

    def __init__(self, structure: CovarianceModel) -> None:
        """Both kinds alike, for every attribute that is asked about.

        Very large ones have none, and no attribute has one where it would take more than seconds to learn.
        """
        sizes = structure.prior.schema.shape
        parts = (
            [part for part in structure.parts if structure.loaded(part)] if structure.numbers <= _MOST_NUMBERS else []
        )
        members = {a for part in parts for a in part if sizes[a] <= _LARGEST}
        self._kinds = {
            a: (np.eye(sizes[a]), ordered_covariance(structure.prior.probabilities[a])) for a in sorted(members)
        }
        self._shares = {a: np.array([0.5, 0.5]) for a in self._kinds}

    @property
    def matrices(self) -> dict[int, Floats]:
        """For each attribute its matrix."""
        return {a: np.asarray(np.tensordot(self._shares[a], kinds, 1)) for a, kinds in self._kinds.items()}

    def learn(self, solution: Posterior) -> None:
        """Shares times what is shown over what is expected; a belief in even shares counts as two answers."""
        for a, found in evidence(solution).items():
            seen = [_seen(kind, solution.structure.loadings[a]) for kind in self._kinds[a]]
            shown, expected = (np.array([(x * each).sum() for x in seen]) for each in (found.shown, found.expected))
            # The gradient in a share is the inner product of its kind with shown - expected, all seen from the root
            shares = self._shares[a]
            shares = shares * (shown + _EVEN / 2 / shares) / (expected + _EVEN)
            self._shares[a] = shares / shares.sum()


def moved(solution: Posterior, first: Mapping[int, Floats]) -> dict[int, Floats]:
    """Each attribute's matrix after one step towards what the answers show, pulled back to its initial matrix.

    The step is the geometric mean of what is shown and the inverse of what is expected, as it is for variances.
    """
    out = {}
    for a, found in evidence(solution).items():
        root = solution.structure.loadings[a]
        size = len(root)
        # A belief worth ``size`` answers: the identity on the side of what is expected, the first matrix on the other
        step = _between(found.shown + size * _seen(first[a], root), found.expected + size * np.eye(size))
        matrix = root @ step @ root.T
        out[a] = matrix * (size / np.trace(matrix))  # how much is for the variances to say, which directions is for C
    return out


def _seen(matrix: Floats, root: Floats) -> Floats:
    """A matrix in the coordinates of the root of another; the identity if both are equal."""
    from scipy.linalg import solve_triangular

    # R^-1 matrix R'^-1, one side after the other
    half = solve_triangular(root, matrix, lower=True, check_finite=False)
    return np.asarray(solve_triangular(root, half.T, lower=True, check_finite=False))


def _between(shown: Floats, expected: Floats) -> Floats:
    """The positive matrix X with X expected X = shown: E^-1/2 (E^1/2 shown E^1/2)^1/2 E^-1/2, E what is expected."""
    values, vectors = np.linalg.eigh((expected + expected.T) / 2)
    half = (vectors * np.sqrt(values)) @ vectors.T
    inverse = (vectors / np.sqrt(values)) @ vectors.T
    values, vectors = np.linalg.eigh(half @ shown @ half)
    return np.asarray(inverse @ ((vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T) @ inverse)
