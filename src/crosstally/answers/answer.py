"""Answer one or many questions from an estimate: the table, its method, and its error if that is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import TypeGuard

import numpy as np

from crosstally.answers.bounds import margin_bounds
from crosstally.answers.changes import emptied, where_added
from crosstally.answers.error_bars import ErrorBars
from crosstally.answers.interactions import own_sizes
from crosstally.answers.intervals import Covered, Modelled
from crosstally.answers.joint_draws import Joint, not_linear
from crosstally.answers.linear_form import LinearForm, normal_draws
from crosstally.answers.marginal import ErrorKind, Marginal
from crosstally.answers.moments import MomentTable
from crosstally.answers.spread import InGroups, SpreadOverGroups, grouped_bounds, spread
from crosstally.answers.uncertainty import Bounds, Draws, LinearLaw, Uncertainty
from crosstally.answers.unmeasured.known import (
    Known,
    Reconstruction,
    known_alike,
    least_differences,
    least_norm,
    linear_tables,
)
from crosstally.answers.unmeasured.maximum_entropy import greatest_entropy
from crosstally.answers.unmeasured.proportional_fitting import keeping_total, nearest_to_reference, raked_to_possible
from crosstally.errors import QueryError, TooManyCellsError, did_you_mean
from crosstally.inference.joint_correction import clip_and_keep_total
from crosstally.query.queries import MAX_CELLS, too_many_cells
from crosstally.query.question import Where
from crosstally.query.ways import Groups
from crosstally.residuals import Estimate, rebuild
from crosstally.residuals.nested import shares_in_groups
from crosstally.schema import Schema
from crosstally.typing import Floats

Names = tuple[str, ...]
Reconstructing = Callable[[Known], list[Reconstruction]]

BOUNDS = "bounds"
"""Maximum entropy, with bounds of all that the measured margins allow in the place of a modelled interval."""

METHODS: Mapping[str, Reconstructing] = {
    "maximum-entropy": greatest_entropy,
    BOUNDS: greatest_entropy,
    "least-squares": least_norm,
    "linear-program": least_differences,
}
"""How tables that no view covers are found; covered tables are the estimate itself with each."""

LATENT_CLASSES = "latent-classes"
"""The default method where a release has a ``reference``, in place of maximum entropy."""


def answer(
    estimate: Estimate,
    errors: ErrorBars,
    names: Sequence[str],
    *,
    where: Where | None = None,
    method: str | None = None,
) -> Marginal:
    """The table over some attributes, axes in the order named; over none, the total.

    Where the estimate was corrected the answer has no negative cells either: they become zero and the total is kept.
    Its errors are those of the corrected cells. Tables that are not covered have modelled ones.
    """
    return answer_all(estimate, errors, [names], where=where, method=method)[0]


def answer_all(
    estimate: Estimate,
    errors: ErrorBars,
    tables: Sequence[Sequence[str]],
    *,
    where: Where | None = None,
    method: str | None = None,
    caption: str = "",
) -> list[Marginal]:
    """The tables over some sets of attributes, in order; faster than one by one. ``caption`` is that of each.

    A covered table is the estimate's, whatever the method. The others are found by ``method``, and are not negative
    either; only least squares from an estimate that was not corrected stays linear. When it is None they are those of
    greatest entropy, or nearest to the model of latent classes where the release has one.

    With a condition the tables over its attributes too are answered, and added up over the cells in which it is true.
    """
    if method is not None and method not in (*METHODS, LATENT_CLASSES):
        raise QueryError(f"unknown method {method!r}{did_you_mean(str(method), (*METHODS, LATENT_CLASSES))}")
    asked = _Asked(estimate, errors, method, caption)
    if where is None:
        return asked.tables(tables)
    joint = asked.tables([(*names, *(name for name in where.attributes if name not in names)) for names in tables])
    return [_where(each, names, where, errors) for each, names in zip(joint, tables, strict=True)]


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """What is asked: of which estimate with which errors, by which method, and under which caption."""

    estimate: Estimate
    errors: ErrorBars
    method: str | None
    caption: str

    @property
    def rows(self) -> float:
        """The number of rows; NaN where it is not known."""
        return float(self.estimate.table(())) if self.estimate.covers(()) else math.nan

    def tables(self, tables: Sequence[Sequence[str]]) -> list[Marginal]:
        """The tables over some sets of attributes."""
        if self.estimate.groups is not None:
            return self._from_groups(self.estimate.groups, tables)
        _check_cells(self.estimate.schema, tables)
        answers: dict[int, Marginal] = {}
        for positions, known in known_alike(self.estimate, tables):
            names = [tuple(tables[i]) for i in positions]
            found = self._covered(names, known) if known.covered.all() else self._filled(names, known)
            answers.update(zip(positions, (self._possible(each, known) for each in found), strict=True))
        return [answers[i] for i in range(len(tables))]

    def _marginal(
        self, names: Names, values: Floats, method: str, kind: ErrorKind, own: Uncertainty | None
    ) -> Marginal:
        return Marginal(
            self.estimate.schema.subset(*names),
            values,
            method=method,
            error_kind=kind,
            uncertainty=own,
            corrected=self.estimate.corrected != "none",
            caption=self.caption,
        )

    def _possible(self, found: Marginal, known: Known) -> Marginal:
        """The answer with impossible cells set to zero; linear answers stay as they are."""
        possible = self.estimate.schema.possible(found.attributes) if found.corrected else None
        if possible is None:
            return found
        values, own = found.values, found.uncertainty
        if known.covered.all():
            values = keeping_total(values, possible)
        else:
            values = raked_to_possible(values, possible, known.subsets)
        if own is not None and own.joint is not None:
            own = replace(own, joint=own.joint.changed(emptied(possible)))
        if _has_intervals(own):
            own = replace(own, possible=possible)
        return replace(found, values=values, uncertainty=own)

    # Covered tables

    def _covered(self, tables: Sequence[Names], known: Known) -> list[Marginal]:
        """Covered tables: the estimate's, with their errors."""
        estimate, errors, ndim = self.estimate, self.errors, len(known.shape)
        corrected = estimate.corrected != "none"
        stack = rebuild(known.coefficients.reshape(-1, *known.shape), ndim)
        bootstrap, moments = errors.bootstrap if corrected else None, errors.moments(estimate)
        cells = clip_and_keep_total(stack, ndim) if corrected else stack
        out = []
        for names, values in zip(tables, cells, strict=True):
            law = errors.covered_law(names)
            table: Covered | MomentTable | None = None
            if moments is not None and names:
                table = MomentTable(moments, names, values)
            elif bootstrap is not None:
                table = Covered(bootstrap, estimate, names)
            joint = self._covered_joint(names, values, table)
            own: Uncertainty = Draws(joint, law, cells=table, additive=isinstance(table, Covered))
            if table is None or not names:  # no correction moves the total but at zero: the law of its noise is exact
                own = LinearLaw(joint, law, whole=table is not None)
            kind = law.kind if bootstrap is None else ErrorKind.CORRECTED
            out.append(self._marginal(names, values, self.method or "least-squares", kind, own))
        return out

    def _covered_joint(self, names: Names, values: Floats, table: Covered | MomentTable | None) -> Joint | None:
        """How the cells of a covered table vary together; corrected ones as those of a table do."""
        errors, replicates = self.errors, isinstance(table, Covered)
        draws = partial(normal_draws, errors, names, values) if table is None else table.draws
        if not errors.in_full(names):
            form = partial(LinearForm.table, errors, names, values.shape)
            known = table is None or replicates
            unshrunk = partial(_unshrunk, errors, self.estimate, names, values if table is None else None)
            return Joint((errors,), draws, form, replicates, unshrunk if known else not_linear, self.rows)
        # in groups and in full: no product form has its errors
        return None if table is None else Joint((errors,), draws, replicates=replicates, rows=self.rows)

    # Tables that nobody measured

    def _filled(self, tables: Sequence[Names], known: Known) -> list[Marginal]:
        """Tables that are not covered, their gaps filled by a method.

        Those of greatest entropy have modelled intervals, or bounds where these are asked for, or where an attribute
        was never measured. By other methods they have bounds where two attributes were never measured together.
        """
        estimate, errors, method = self.estimate, self.errors, self.method
        corrected = estimate.corrected != "none"
        if method in {None, LATENT_CLASSES}:
            known = self._with_reference(tables, known)
            if known.reference is None and method is not None:
                raise QueryError(
                    f"there is no model of latent classes for {', '.join(tables[0])}: it needs wide views that call "
                    "for it and all pairs measured; leave the method out, or use maximum-entropy"
                )
        method = method or ("maximum-entropy" if known.reference is None else LATENT_CLASSES)
        bounded, linear = method == BOUNDS, method == "least-squares" and not corrected
        solve = linear_tables if linear else nearest_to_reference if method == LATENT_CLASSES else METHODS[method]
        kind, moments = ErrorKind.NONE, errors.moments(estimate)
        repeated = errors.bootstrap is not None and errors.sizes is not None
        if corrected and known.covered[0] and (repeated or moments is not None):
            entropic = solve in {greatest_entropy, nearest_to_reference}
            # sizes of interactions are known from pairs on; the local model knows those of pairs it asked about
            enough = 1 if entropic and moments is None else 2
            kind = ErrorKind.MODELLED if entropic else ErrorKind.NONE
            if bounded or not _measured_together(known, enough):
                kind = ErrorKind.BOUNDS
        method, out = "maximum-entropy" if bounded else method, []
        for i, (names, solved) in enumerate(zip(tables, solve(known), strict=True)):
            own: Uncertainty | None = None
            joint, table = None, self._unmeasured(names, known.row(i), solved.values)
            if table is not None and (repeated or kind is ErrorKind.MODELLED):
                joint = Joint((errors,), table.draws, rows=self.rows)
            if kind is ErrorKind.BOUNDS:
                ends = partial(margin_bounds, partial(answer, estimate, errors), names, known.shape, known.subsets)
                own = Bounds(joint, ends=ends, additive=repeated)
            elif kind is ErrorKind.MODELLED:
                own = Draws(joint, modelled=True, cells=table)
            out.append(replace(self._marginal(names, solved.values, method, kind, own), relaxed=solved.relaxed))
        return out

    def _unmeasured(self, names: Names, known: Known, values: Floats) -> Modelled | MomentTable | None:
        """A table that was not measured, where something is known about how far it may be from the truth."""
        errors, moments = self.errors, self.errors.moments(self.estimate)
        if moments is not None:
            return MomentTable(moments, names, values)
        if errors.bootstrap is None or errors.sizes is None:
            return None
        sizes = partial(errors.sizes_beside, referred=known.reference is not None)
        return Modelled(errors.bootstrap, sizes, self.estimate, names, known, values)

    def _with_reference(self, tables: Sequence[Names], known: Known) -> Known:
        """What is known, with the tables of the release's model where it has one and all pairs were measured."""
        held_out = self.errors.held_out
        chosen = held_out() if held_out is not None and known.covered[0] and _measured_together(known, 2) else None
        return known if chosen is None else replace(known, reference=chosen.reference(self.estimate, tables))

    # Tables of values that were measured in groups

    def _from_groups(self, groups: Groups, tables: Sequence[Sequence[str]]) -> list[Marginal]:
        """Tables where some values were measured in groups: answered in the extended schema, then spread over values.

        The table of one attribute that was measured in full is there; so are tables without groups. In others the
        values of a group share each of its cells as they share the group: of all tables that have these cells and the
        tables of single attributes, this one has the greatest entropy. What that may miss is in their intervals
        (``spread``).
        """
        _check_cells(groups.schema, tables)
        plain = replace(self, estimate=replace(self.estimate, groups=None))
        in_full = {name for name, full in groups.full_names.items() if plain.estimate.covers((full,))}
        asked = [groups.names(names) if in_full.issuperset(names) else tuple(names) for names in tables]
        shares = {name: plain._shares(groups, name) for names in tables for name in names if name in groups.codes}
        out = []
        for names, extended, found in zip(tables, asked, plain.tables(asked), strict=True):
            axes = {
                axis: InGroups(
                    groups.codes[name], shares[name], plain.estimate.places([(groups.full_names[name],)])[0][0]
                )
                for axis, name in enumerate(names)
                if name in groups.codes and name in extended
            }
            each = replace(found, schema=groups.schema.subset(*names)) if not axes else found
            if axes:
                known = all(names[axis] in in_full for axis in axes)
                each = plain._spread(found, groups.schema.subset(*names), axes, known)
            out.append(each)
        return out

    def _shares(self, groups: Groups, name: str) -> Floats:
        """The share of each value in its group: as measured in full, otherwise equal shares."""
        full, codes = (groups.full_names[name],), groups.codes[name]
        covered = self.estimate.covers(full)
        return shares_in_groups(codes, self.estimate.table(full) if covered else np.zeros(len(codes)))

    def _spread(self, found: Marginal, schema: Schema, axes: Mapping[int, InGroups], known: bool) -> Marginal:
        """A table of groups, spread over values; ``known`` says whether all shares were measured."""
        errors, of_groups, kind = self.errors, found.uncertainty, ErrorKind.NONE
        own: Uncertainty | None = None
        if _has_intervals(of_groups):
            possible = None if of_groups.possible is None else spread(of_groups.possible[None], axes)[0]
            ends = partial(grouped_bounds, replace(of_groups, possible=None), axes, found.values)
            own, kind = Bounds(ends=ends, possible=possible), ErrorKind.BOUNDS
            whole = of_groups.cells if isinstance(of_groups, Draws) else None
            if isinstance(whole, Covered | Modelled) and known and errors.sizes is not None:
                cells = SpreadOverGroups(whole, axes, found.values, partial(self._sizes, found.attributes))
                own, kind = Draws(modelled=True, cells=cells, possible=possible), ErrorKind.MODELLED
        shares = {axis: each.shares[None] for axis, each in axes.items()}
        return replace(
            found,
            schema=schema,
            values=spread(found.values[None], axes, shares)[0],
            method=self.method or "maximum-entropy",
            error_kind=kind,
            uncertainty=own,
        )

    def _sizes(self, names: Names, axes: tuple[int, ...]) -> Floats:
        """The law of the size of the interaction of some axes of a table of groups: its own where that is covered."""
        assert self.errors.bootstrap is not None  # asked for by intervals alone
        assert self.errors.sizes is not None
        some, sizes = tuple(names[axis] for axis in axes), self.errors.sizes()
        own = own_sizes(self.estimate, self.errors.bootstrap(), sizes, some)
        return sizes.of(some) if own is None else own


def _unshrunk(errors: ErrorBars, estimate: Estimate, names: Names, values: Floats | None) -> Floats:
    """The linear estimate of a table, its values where it is the answer, then the same with its noise drawn anew."""
    places, shape = estimate.places([names])[0][0], estimate.schema.sizes(names)
    if values is None:
        assert errors.bootstrap is not None  # corrected tables have replicates
        values = rebuild(errors.bootstrap().linear[places].reshape(1, *shape), len(shape))[0]
    if errors.laplace_noise is None:
        return normal_draws(errors, names, values)
    noise = rebuild(errors.laplace_noise[:, places].astype(np.float64).reshape(-1, *shape), len(shape))
    return np.concatenate([values[None], values + noise])


def _has_intervals(own: Uncertainty | None) -> TypeGuard[Bounds | Draws]:
    """Whether cells have bounds, or intervals from the replicates of the inference."""
    return isinstance(own, Bounds) or (isinstance(own, Draws) and isinstance(own.cells, Covered | Modelled))


def _measured_together(known: Known, number: int) -> bool:
    """Whether every so many of its attributes were measured together; where it has fewer, all of them."""
    axes = range(len(known.shape))
    sets = [sum(1 << axis for axis in some) for some in combinations(axes, min(number, len(axes)))]
    return all(any(bits & subset == bits for subset in known.subsets) for bits in sets)


def _where(joint: Marginal, names: Sequence[str], where: Where, errors: ErrorBars) -> Marginal:
    """The sums over the cells of a table in which a condition is true; the first of its attributes are asked for.

    Labels of attributes asked for that no row satisfying the condition can have are left out.
    """
    asked, summed = joint.attributes[: len(names)], joint.attributes[len(names) :]
    chosen, kept = where.chosen(joint.attributes), []
    attributes = []
    for axis, attribute in enumerate(joint.schema.attributes[: len(asked)]):
        kept.append(np.arange(attribute.size))
        if attribute.name in where.attributes:
            kept[axis] = np.flatnonzero(chosen.any(axis=tuple(i for i in range(chosen.ndim) if i != axis)))
            chosen = chosen.take(kept[axis], axis)
        attributes.append(attribute.keeping(kept[axis].tolist()))

    added = where_added(where, joint.attributes, tuple(kept), chosen)
    has_error = joint.error_kind not in {ErrorKind.NONE, ErrorKind.MODELLED, ErrorKind.BOUNDS}
    error = errors.sums(asked, summed, chosen, kept) if has_error else None
    return replace(
        joint,
        schema=replace(joint.schema, attributes=tuple(attributes)),
        values=added.table(joint.values),
        uncertainty=None if joint.uncertainty is None else joint.uncertainty.summed(added, joint.values, error),
        where=where.text,
    )


def _check_cells(schema: Schema, tables: Sequence[Sequence[str]]) -> None:
    total = 0
    for names in tables:
        cells = math.prod(schema.sizes(names))
        total += cells
        if cells > MAX_CELLS:
            raise TooManyCellsError(too_many_cells(names, schema.sizes(names), "ask for fewer attributes"))
    if total > MAX_CELLS:
        raise TooManyCellsError(
            f"tables asked together must have at most {MAX_CELLS:,} cells, got {total:,}; ask in several batches"
        )
