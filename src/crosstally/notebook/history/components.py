"""The fast path: ridge regression with one variance for each set of attributes, solved by blocks and a low-rank part.

The covariance of past answers is A = D + L L'. D is block diagonal: it holds the noise, and the parts that only queries
of one block share. L holds the parts that many queries share, such as those of single attributes. Each block is solved
by Cholesky, the rest by Woodbury's identity. No cost grows with the size of the domain, and none with the cube of the
number of queries unless all queries share parts of very many cells.

The model: S runs over all subsets of the attributes of some past query ("parts"), except those that are known; q is
the number of past queries and c_S the number of cells of S. F_S (q, c_S) has for each query its part about S alone: its
table averaged by the prior over the attributes outside S, centred by the prior along those of S, and each cell times
the root of its prior probability (``bundles.projected``; without the root where the variance of S is known).

    answers, less what is known of them  a = sum over S of F_S b_S + noise,     b_S ~ N(0, v_S I),  noise ~ N(0, N)
    covariance  A = N + sum over S of v_S F_S F_S' = D + L L',     L = the columns sqrt(v_S) F_S of shared parts
    Woodbury  A^-1 = D^-1 - D^-1 L M^-1 L' D^-1,     M = I + L' D^-1 L
    estimate  E[b_S | a] = v_S F_S' A^-1 a,     of a query with features f_S: sum over S of f_S E[b_S | a]

which is kernel ridge regression with the kernel of the paper (EDBT 2012, section 3), each v_S in the place of alpha^2.
With learned matrices (``loadings``) F_S is multiplied by the roots R_1 x ... x R_s of its attributes, and b_S is what
these turn into the deviation. The v_S are given: ``likelihood`` finds them.
In ``Posterior``: ``scaled`` is L (q, columns), ``solved`` is D^-1 L (q, columns), ``factors`` are the Cholesky factors
of the blocks of D, ``middle`` that of M (columns, columns), ``weights`` A^-1 a (q).

With one query, one part of one cell, feature 1, v = 3 and noise 1, A is 4: of an answer of 8 the estimate is
3/4 x 8 = 6, and its error variance 3 - 9/4 = 3/4.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from crosstally.notebook.history.bundles import Positions, QueryBatch, QueryGroup, parts_of, projected
from crosstally.notebook.history.correlated import SharedErrors
from crosstally.notebook.history.prior import Prior
from crosstally.typing import Floats

# Shared parts are kept as low rank while their cells are below a quarter of the answers, but at least 300 and at most
# 1,500: limits time, since its matrix is factored at each step. Results do not depend on it.
_LOW_RANK = (300, 1500)
# Limits memory: 480 MB of products. Above it they are computed anew in each step, which takes longer.
_KEPT_NUMBERS = 60_000_000
# Differences that must be positive are at least this part of what was subtracted from: rounding of doubles.
_ROUNDING = 1e-12

Variances = Mapping[Positions, float]
"""v_S: for each set of attributes the prior variance of each number of b_S, in squared counts."""
Features = Mapping[Positions, Floats]
"""F_S: for each set of attributes the part of some queries that is about it, (queries, cells of S)."""


@dataclass(frozen=True, slots=True, eq=False)
class _Shared:
    """A part of the queries: which rows of the batch have it (rows), and their features (rows, cells of the part)."""

    part: Positions
    rows: NDArray[np.intp]
    features: Floats


def _along(table: Floats, matrices: Sequence[Floats | None]) -> Floats:
    """Each axis but the first multiplied by its matrix, if it has one."""
    for axis, matrix in enumerate(matrices, start=1):
        if matrix is None:
            continue
        if axis == table.ndim - 1:
            table = table @ matrix
        else:
            # The axis in the middle of three: what is before it, itself, what is behind it
            stacked = table.reshape(-1, table.shape[axis], math.prod(table.shape[axis + 1 :]))
            table = (matrix.T @ stacked).reshape(table.shape)
    return table


class CovarianceModel:
    """Past queries split into parts, and which of them are solved in blocks and which as a low-rank part."""

    def __init__(
        self,
        batch: QueryBatch,
        prior: Prior,
        *,
        known: Sequence[Positions] = (),
        plain: Container[Positions] = (),
        errors: Sequence[SharedErrors] = (),
    ) -> None:
        """Take in the queries.

        Args:
            batch: The queries.
            prior: What is believed about the rows.
            known: Parts to leave out: the total, where it is public.
            plain: Parts whose numbers all have the same variance, whatever is learned about their attributes.
            errors: Errors that some of the answers share. Each group is a part (-1,), (-2,), ... of low rank.
        """
        self.batch, self.prior = batch, prior
        self.plain = plain
        self.loadings: dict[int, Floats] = {}
        # For each part the bundles that have it: a query about attributes {1, 2} has the parts {}, {1}, {2} and {1, 2}
        members: dict[Positions, list[int]] = {}
        for i, bundle in enumerate(batch.bundles):
            for part in parts_of(bundle.positions):
                if part not in known:
                    members.setdefault(part, []).append(i)
        shared = tuple(_Shared((-1 - i,), each.rows, each.columns) for i, each in enumerate(errors))
        self.parts = (*members, *(each.part for each in shared))
        # Shared parts are columns of L. The others are inside one block each, since bundles that share one are united.
        low_rank, owner = self._split(members)
        self.shared = (*(self._shared(part, members[part]) for part in low_rank), *shared)
        groups: dict[int, list[int]] = {}
        for i in range(len(batch.bundles)):
            groups.setdefault(owner[i], []).append(i)
        self.blocks = tuple(np.concatenate([batch.bundles[i].rows for i in group]) for group in groups.values())
        # places[i] is where query i stands within its own block
        places = np.empty(batch.size, np.intp)
        for rows in self.blocks:
            places[rows] = np.arange(len(rows))
        self.places = places
        number = {root: i for i, root in enumerate(groups)}
        self.inside: tuple[list[_Shared], ...] = tuple([] for _ in groups)
        for part, where in members.items():
            if part not in low_rank:
                self.inside[number[owner[where[0]]]].append(self._shared(part, where))

    def _split(self, members: Mapping[Positions, list[int]]) -> tuple[set[Positions], list[int]]:
        """Small parts that several bundles share become low rank; bundles that share larger parts become one block."""
        owner = list(range(len(self.batch.bundles)))  # a forest: bundles with the same root are one block

        def root(i: int) -> int:
            while owner[i] != i:
                i = owner[i]
            return i

        room = min(max(self.batch.size // 4, _LOW_RANK[0]), _LOW_RANK[1])
        low_rank: set[Positions] = set()
        for part in sorted(members, key=self._cells):  # the smallest first: most parts for the same number of columns
            where = members[part]
            if len(where) == 1:
                continue
            # M costs columns^3 to factor, a block rows^3: parts of few cells are cheap in M, the others in a block
            if self._cells(part) <= room:
                room -= self._cells(part)
                low_rank.add(part)
            else:
                for i in where[1:]:
                    owner[root(i)] = root(where[0])
        return low_rank, [root(i) for i in range(len(owner))]

    def _cells(self, part: Positions) -> int:
        return math.prod(self.prior.schema.shape[p] for p in part)

    def _shared(self, part: Positions, where: Sequence[int]) -> _Shared:
        bundles = [self.batch.bundles[i] for i in where]
        rows = np.concatenate([bundle.rows for bundle in bundles])
        return _Shared(part, rows, np.concatenate([projected(bundle, part, self.prior) for bundle in bundles]))

    def loaded(self, part: Positions) -> bool:
        """Whether the attributes' matrices apply to this part; not where its errors are known, nor to shared errors."""
        return bool(part) and part[0] >= 0 and part not in self.plain and part not in self.prior.known_variances

    @property
    def numbers(self) -> int:
        """How many numbers the parts of all queries have."""
        return sum(each.features.size for inside in (self.shared, *self.inside) for each in inside)

    def features(self, bundle: QueryGroup, part: Positions) -> Floats:
        """The part of each query of a bundle, scaled so that its numbers are independent with equal prior variance."""
        return self._loaded_features(projected(bundle, part, self.prior), part, self.loadings)

    def all_features(self, bundle: QueryGroup, *, known: Sequence[Positions] = ()) -> Features:
        """The features of each query of a bundle, for all its parts but those that are known."""
        return {part: self.features(bundle, part) for part in parts_of(bundle.positions) if part not in known}

    def _loaded_features(self, features: Floats, part: Positions, matrices: Mapping[int, Floats]) -> Floats:
        """Features times the Kronecker product of the attributes' roots: with C = R R' and b = R u, F b = (F R) u."""
        if not self.loaded(part) or not any(a in matrices for a in part):
            return features
        sizes = (self.prior.schema.shape[a] for a in part)
        table = _along(features.reshape(len(features), *sizes), [matrices.get(a) for a in part])
        return np.asarray(table.reshape(features.shape))

    def unturned(self, numbers: Floats, part: Positions) -> Floats:
        """Numbers of a part in the form of features as numbers in the form of projected queries."""
        return np.asarray(
            self._loaded_features(numbers[None], part, {a: root.T for a, root in self.loadings.items()})[0]
        )

    def with_matrices(self, matrices: Mapping[int, Floats]) -> CovarianceModel:
        """The same queries with these prior covariances of attributes: positive matrices, a row for each cell."""
        from scipy.linalg import cholesky, solve_triangular

        other = copy(self)
        for name in ("columns", "_products"):  # computed from the features, which change
            other.__dict__.pop(name, None)
        roots = {a: np.asarray(cholesky(matrix, lower=True, check_finite=False)) for a, matrix in matrices.items()}
        # Features hold the old roots already: F R_new = (F R_old) (R_old^-1 R_new)
        changes = {
            a: np.asarray(solve_triangular(self.loadings[a], root, lower=True)) if a in self.loadings else root
            for a, root in roots.items()
        }

        def reloaded(each: _Shared) -> _Shared:
            return _Shared(each.part, each.rows, self._loaded_features(each.features, each.part, changes))

        other.loadings = {**self.loadings, **roots}
        other.shared = tuple(map(reloaded, self.shared))
        other.inside = tuple(list(map(reloaded, inside)) for inside in self.inside)
        return other

    @cached_property
    def columns(self) -> tuple[Floats, tuple[slice, ...]]:
        """The features of all low-rank parts side by side, and the columns of each."""
        ends = np.cumsum([0, *(each.features.shape[1] for each in self.shared)])
        out = np.zeros((self.batch.size, int(ends[-1])))
        slices = tuple(slice(a, b) for a, b in pairwise(ends.tolist()))
        for each, place in zip(self.shared, slices, strict=True):
            out[each.rows, place] = each.features
        return out, slices

    @cached_property
    def _kept_products(self) -> bool:
        return sum(len(each.rows) ** 2 for inside in self.inside for each in inside) <= _KEPT_NUMBERS

    @cached_property
    def _products(self) -> dict[Positions, Floats]:
        return {}

    def product(self, each: _Shared) -> Floats:
        """The inner products of one part within its block."""
        if each.part in self._products:
            return self._products[each.part]
        found = each.features @ each.features.T
        if self._kept_products:
            self._products[each.part] = found
        return found

    def solve(self, past: NoisyAnswers, variances: Variances) -> Posterior:
        """Factor the covariance that these variances give to the past answers."""
        return Posterior(self, past, variances)


@dataclass(frozen=True, slots=True, eq=False)
class NoisyAnswers:
    """Noisy answers minus their known part, and the variance of the noise of each."""

    answers: Floats
    _: KW_ONLY
    noise: Floats


class Posterior:
    """The factors of the covariance of past answers, and what follows from them."""

    def __init__(self, structure: CovarianceModel, past: NoisyAnswers, variances: Variances) -> None:
        from scipy.linalg import cho_solve, cholesky

        self.structure, self.past = structure, past
        self.variances = dict(variances)
        columns, slices = structure.columns
        roots = np.ones(columns.shape[1])
        for each, place in zip(structure.shared, slices, strict=True):
            roots[place] = math.sqrt(variances[each.part])
        self.scaled = columns * roots  # L
        self.factors: list[Floats] = []
        solved = np.empty_like(self.scaled)
        self._log_determinant = 0.0
        for rows, inside in zip(structure.blocks, structure.inside, strict=True):
            block = np.diag(past.noise[rows])  # D = N + sum of v_S F_S F_S' over the parts inside
            for each in inside:
                where = structure.places[each.rows]
                product = structure.product(each) * variances[each.part]
                # Most parts inside are those of all queries of the block: an addition without a copy then
                if len(where) == len(rows) and np.array_equal(where, np.arange(len(rows))):
                    block += product
                else:
                    block[np.ix_(where, where)] += product
            factor = cholesky(block, lower=True, overwrite_a=True, check_finite=False)
            self.factors.append(factor)
            solved[rows] = cho_solve((factor, True), self.scaled[rows], check_finite=False)
            self._log_determinant += 2 * float(np.log(np.diag(factor)).sum())
        self.solved = solved
        # log det A = log det D + log det M
        middle = np.eye(self.scaled.shape[1]) + self.scaled.T @ solved
        self.middle = cholesky(middle, lower=True, check_finite=False)
        self._log_determinant += 2 * float(np.log(np.diag(self.middle)).sum())

    def inverse_times(self, right: Floats) -> Floats:
        """A^-1 times a vector or a matrix with a row for each past answer."""
        from scipy.linalg import cho_solve

        out = np.empty_like(right)
        for rows, factor in zip(self.structure.blocks, self.factors, strict=True):
            out[rows] = cho_solve((factor, True), right[rows], check_finite=False)  # D^-1 right
        if self.scaled.shape[1]:
            out -= self.solved @ cho_solve((self.middle, True), self.scaled.T @ out, check_finite=False)
        return out

    @cached_property
    def weights(self) -> Floats:
        """A^-1 a: how much each past answer counts."""
        return self.inverse_times(self.past.answers)

    @cached_property
    def corrections(self) -> Floats:
        """The W of A^-1 = D^-1 - W W'."""
        from scipy.linalg import solve_triangular

        if not self.scaled.shape[1]:
            return self.solved
        # With M = R R' it is D^-1 L R'^-1
        return np.asarray(solve_triangular(self.middle, self.solved.T, lower=True, check_finite=False).T)

    @cached_property
    def inverse_blocks(self) -> list[Floats]:
        """The diagonal blocks of A^-1."""
        from scipy.linalg import cho_solve

        out = []
        for rows, factor in zip(self.structure.blocks, self.factors, strict=True):
            correction = self.corrections[rows]
            inverse = cho_solve((factor, True), np.eye(len(rows)), check_finite=False)
            out.append(np.asarray(inverse - correction @ correction.T))
        return out

    @cached_property
    def inverse_diagonal(self) -> Floats:
        """The diagonal of A^-1."""
        out = np.empty(len(self.past.answers))
        for rows, inverse in zip(self.structure.blocks, self.inverse_blocks, strict=True):
            out[rows] = np.diag(inverse)
        return out

    def inverse_times_features(self) -> Iterator[tuple[_Shared, Floats]]:
        """Each part that attributes' matrices shape, with its features, and A^-1 times these, for the same queries."""
        from scipy.linalg import cho_solve

        structure = self.structure
        for number, inside in enumerate(structure.inside):
            for each in (each for each in inside if structure.loaded(each.part)):
                where = structure.places[each.rows]
                yield each, self.inverse_blocks[number][np.ix_(where, where)] @ each.features
        # A^-1 L = D^-1 L M^-1, and F_S are the columns of L over sqrt(v_S)
        low_rank = [
            pair for pair in zip(structure.shared, structure.columns[1], strict=True) if structure.loaded(pair[0].part)
        ]
        if low_rank:
            found = cho_solve((self.middle, True), self.solved.T, check_finite=False)
            for each, place in low_rank:
                yield each, found[place, each.rows].T / math.sqrt(self.variances[each.part])

    @property
    def fitted(self) -> Floats:
        """The estimate of each past query minus its known part: (A - N) A^-1 a = a - N A^-1 a."""
        return self.past.answers - self.past.noise * self.weights

    @property
    def fitted_errors(self) -> Floats:
        """The standard error of each: the root of the diagonal of N - N A^-1 N."""
        noise = self.past.noise
        return np.asarray(np.sqrt(np.maximum(noise - noise**2 * self.inverse_diagonal, _ROUNDING * noise)))

    @property
    def log_likelihood(self) -> float:
        """The normal log-likelihood of the past answers, up to a constant: -(log det A + a' A^-1 a) / 2."""
        return -0.5 * (self._log_determinant + float(self.past.answers @ self.weights))

    def with_answers(self, answers: Floats) -> Posterior:
        """The same factors with other answers."""
        other = copy(self)
        for name in ("weights", "coefficients", "_numbers"):  # all that depends on answers; the factors do not
            other.__dict__.pop(name, None)
        other.past = NoisyAnswers(answers, noise=self.past.noise)
        return other

    # What past answers say about other queries

    @cached_property
    def _numbers(self) -> dict[Positions, Floats]:
        """For each part the estimate, to be multiplied with features: the weighted sum of past ones."""
        structure = self.structure
        return {
            each.part: self.variances[each.part] * (self.weights[each.rows] @ each.features)
            for each in (*structure.shared, *(each for inside in structure.inside for each in inside))
        }

    @cached_property
    def coefficients(self) -> dict[Positions, Floats]:
        """For each part the estimate, to be multiplied with projected queries."""
        return {part: self.structure.unturned(found, part) for part, found in self._numbers.items()}

    def estimates(self, batch: QueryBatch, *, known: Sequence[Positions] = ()) -> Floats:
        """The estimate of each query minus its known part."""
        out = np.zeros(batch.size)
        for bundle in batch.bundles:
            for part in parts_of(bundle.positions):
                if part in self.coefficients and part not in known:
                    out[bundle.rows] += projected(bundle, part, self.structure.prior) @ self.coefficients[part]
        return out

    def errors(self, batch: QueryBatch, unseen: Variances, *, known: Sequence[Positions] = ()) -> Floats:
        """The expected squared error of each estimate, bias included (equation 16 at its least).

        ``unseen`` holds the variances of parts that no past query has.
        """
        out = np.zeros(batch.size)
        for bundle in batch.bundles:
            features = self.structure.all_features(bundle, known=known)
            if features:
                out[bundle.rows] = self.errors_of(features, unseen)
        return out

    def estimates_of(self, features: Features) -> Floats:
        """The estimates of queries given by the features of all their parts, minus their known part."""
        out = np.zeros(len(next(iter(features.values()))))
        for part, rows in features.items():
            if part in self._numbers:
                out += rows @ self._numbers[part]
        return out

    def errors_of(self, features: Features, unseen: Variances) -> Floats:
        """The expected squared errors of queries that are given by the features of all their parts.

        Given the low-rank parts, those of a block are left with what its answers do not explain; what is not known of
        the low-rank parts comes on top. Nothing large is subtracted.
        """
        from scipy.linalg import cho_solve, solve_triangular

        # ``own`` is the variance before any answer, ``left`` that after the answers of the query's blocks given L;
        # ``low_rank`` becomes the query's row of L less what the blocks explain of it, g; g' M^-1 g comes on top.
        number = len(next(iter(features.values())))
        own = np.zeros(number)
        low_rank = np.zeros((number, self.scaled.shape[1]))
        products: dict[int, Floats] = {}
        for part, rows in features.items():
            variance = self.variances.get(part, unseen.get(part, 0.0))
            if part in self._low:
                low_rank[:, self._low[part]] = math.sqrt(variance) * rows
                continue
            own += variance * np.einsum("ij,ij->i", rows, rows)
            if part in self._inside:
                block, each = self._inside[part]
                found = products.setdefault(block, np.zeros((number, len(self.structure.blocks[block]))))
                found[:, self.structure.places[each.rows]] += variance * (rows @ each.features.T)
        left = own.copy()
        for block, found in products.items():
            solved = cho_solve((self.factors[block], True), found.T, check_finite=False)
            left -= np.einsum("ij,ji->i", found, solved)
            low_rank -= solved.T @ self.scaled[self.structure.blocks[block]]
        more = np.zeros((0, number))
        if low_rank.size:
            more = np.asarray(solve_triangular(self.middle, low_rank.T, lower=True, check_finite=False))
        return np.asarray(np.maximum(left, _ROUNDING * own) + (more**2).sum(axis=0))

    @cached_property
    def _low(self) -> dict[Positions, slice]:
        return {each.part: place for each, place in zip(self.structure.shared, self.structure.columns[1], strict=True)}

    @cached_property
    def _inside(self) -> dict[Positions, tuple[int, _Shared]]:
        return {each.part: (block, each) for block, parts in enumerate(self.structure.inside) for each in parts}
