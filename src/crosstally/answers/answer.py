"""Answer one or many questions from an estimate: the table, its method, and its error if that is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from crosstally.answers.bounds import margin_bounds
from crosstally.answers.changes import emptied, where_added
from crosstally.answers.error_bars import ErrorBars
from crosstally.answers.interactions import own_sizes
from crosstally.answers.intervals import Covered, Modelled
from crosstally.answers.linear_form import LinearForm, ReleaseSource, normal_draws
from crosstally.answers.marginal import ErrorKind, Marginal
from crosstally.answers.moments import MomentTable
from crosstally.answers.spread import InGroups, SpreadOverGroups, grouped_bounds, spread
from crosstally.answers.uncertainty import Bounds, Draws, Joint, LinearLaw, Uncertainty
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

__all__ = ["METHODS", "answer", "answer_all"]

Reconstructing = Callable[[Known], list[Reconstruction]]

METHODS: Mapping[str, Reconstructing] = {
    "maximum-entropy": greatest_entropy,
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
    Its standard error is then the one before correction; its intervals are those of the corrected cells. Tables that
    are not covered have no standard error, and modelled intervals.
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
    if where is not None:
        joint = [(*names, *(name for name in where.attributes if name not in names)) for names in tables]
        answers_to_joint = answer_all(estimate, errors, joint, method=method, caption=caption)
        return [_where(each, names, where, errors) for each, names in zip(answers_to_joint, tables, strict=True)]
    if method is not None and method not in (*METHODS, LATENT_CLASSES):
        raise QueryError(f"unknown method {method!r}{did_you_mean(str(method), (*METHODS, LATENT_CLASSES))}")
    if estimate.groups is not None:
        return _from_groups(estimate, estimate.groups, errors, tables, method, caption)
    _check_cells(estimate.schema, tables)
    answers: dict[int, Marginal] = {}
    for positions, known in known_alike(estimate, tables):
        names = [tables[i] for i in positions]
        found = (_straight if known.covered.all() else _filled)(estimate, errors, names, known, method, caption)
        answers.update(zip(positions, (_possible(estimate, each, known) for each in found), strict=True))
    return [answers[i] for i in range(len(tables))]


def _possible(estimate: Estimate, found: Marginal, known: Known) -> Marginal:
    """The answer with impossible cells set to zero; linear answers stay as they are."""
    possible = estimate.schema.possible(found.attributes) if found.corrected else None
    if possible is None:
        return found
    values, own = found.values, found.uncertainty
    values = (
        keeping_total(values, possible) if known.covered.all() else raked_to_possible(values, possible, known.subsets)
    )
    if own is not None and own.joint is not None:
        own = replace(own, joint=own.joint.changed(emptied(possible)))
    if isinstance(own, Bounds) or (isinstance(own, Draws) and isinstance(own.cells, Covered | Modelled)):
        own = replace(own, possible=possible)
    return replace(found, values=values, uncertainty=own)


def _from_groups(  # noqa: PLR0917 (the arguments of answer_all, and the groups)
    estimate: Estimate,
    groups: Groups,
    errors: ErrorBars,
    tables: Sequence[Sequence[str]],
    method: str | None,
    caption: str,
) -> list[Marginal]:
    """Tables where some values were measured in groups: answered in the extended schema, then spread over values.

    The table of one attribute that was measured in full is there; so are tables without groups. In others the values
    of a group share each of its cells as they share the group: of all tables that have these cells and the tables of
    single attributes, this one has the greatest entropy. What that may miss is in their intervals (``spread``).
    """
    _check_cells(groups.schema, tables)
    in_full = {name for name, full in groups.full_names.items() if estimate.covers((full,))}
    asked = [groups.names(names) if in_full.issuperset(names) else tuple(names) for names in tables]
    found = answer_all(replace(estimate, groups=None), errors, asked, method=method, caption=caption)
    shares = {name: _shares(estimate, groups, name) for names in tables for name in names if name in groups.codes}
    out = []
    for names, extended, each in zip(tables, asked, found, strict=True):
        axes = {
            axis: InGroups(groups.codes[name], shares[name], estimate.places([(groups.full_names[name],)])[0][0])
            for axis, name in enumerate(names)
            if name in groups.codes and name in extended
        }
        schema = groups.schema.subset(*names)
        known = all(names[axis] in in_full for axis in axes)
        own = partial(_own_sizes, estimate, errors, extended)
        found_in_full = _spread(each, errors, axes, known, schema, own=own) if axes else replace(each, schema=schema)
        out.append(replace(found_in_full, method=method or "maximum-entropy") if axes else found_in_full)
    return out


def _own_sizes(
    estimate: Estimate, errors: ErrorBars, names: Sequence[str], axes: tuple[int, ...]
) -> NDArray[np.float64] | None:
    """The weights of the sizes of the interaction of some axes of a table of groups, where that is covered."""
    assert errors.bootstrap is not None  # asked for by intervals alone
    assert errors.sizes is not None
    return own_sizes(replace(estimate, groups=None), errors.bootstrap(), errors.sizes(), tuple(names[i] for i in axes))


def _spread(
    found: Marginal,
    errors: ErrorBars,
    axes: Mapping[int, InGroups],
    known: bool,
    schema: Schema,
    *,
    own: Callable[[tuple[int, ...]], NDArray[np.float64] | None],
) -> Marginal:
    """A table of groups, spread over values.

    ``known`` says whether all shares were measured; ``own`` has the sizes of the table's interactions (``own_sizes``).
    """
    shares = {axis: each.shares[None] for axis, each in axes.items()}
    of_groups, kind = found.uncertainty, ErrorKind.NONE
    new: Uncertainty | None = None
    whole = of_groups.cells if isinstance(of_groups, Draws) else None
    if isinstance(of_groups, Bounds) or (isinstance(of_groups, Draws) and isinstance(whole, Covered | Modelled)):
        possible = None if of_groups.possible is None else spread(of_groups.possible[None], axes)[0]
        ends = partial(grouped_bounds, replace(of_groups, possible=None), axes, found.values)
        new, kind = Bounds(ends=ends, possible=possible), ErrorKind.BOUNDS
        if (
            isinstance(whole, Covered | Modelled)
            and known
            and errors.bootstrap is not None
            and errors.sizes is not None
        ):
            cells = SpreadOverGroups(whole, errors.bootstrap, errors.sizes, axes, cells=found.values, own=own)
            new, kind = Draws(joint=None, modelled=True, cells=cells, possible=possible), ErrorKind.MODELLED
    values = spread(found.values[None], axes, shares)[0]
    return replace(found, schema=schema, values=values, error_kind=kind, uncertainty=new)


def _shares(estimate: Estimate, groups: Groups, name: str) -> NDArray[np.float64]:
    """The share of each value in its group: as measured in full, otherwise equal shares."""
    full, codes = (groups.full_names[name],), groups.codes[name]
    return shares_in_groups(codes, estimate.table(full) if estimate.covers(full) else np.zeros(len(codes)))


def _straight(  # noqa: PLR0917 (the arguments of answer_all, and what is known)
    estimate: Estimate,
    errors: ErrorBars,
    tables: Sequence[Sequence[str]],
    known: Known,
    method: str | None,
    caption: str,
) -> list[Marginal]:
    """Covered tables: the estimate's, with their errors."""
    corrected, ndim = estimate.corrected != "none", len(known.shape)
    stack = rebuild(known.coefficients.reshape(-1, *known.shape), ndim)
    bootstrap = errors.bootstrap if corrected else None
    moments = errors.moments(estimate)
    cells = clip_and_keep_total(stack, ndim) if corrected else stack
    out = []
    for names, values in zip(tables, cells, strict=True):
        law, own = errors.covered_law(names), tuple(names)
        table: Covered | MomentTable | None = None
        if moments is not None and names:
            table = MomentTable(moments, own, values)
        elif bootstrap is not None:
            table = Covered(bootstrap, estimate, own)
        joint = _covered_joint(errors, estimate, own, values, table)
        known_by: Uncertainty = Draws(joint=joint, error=law, cells=table, additive=isinstance(table, Covered))
        if table is None or not names:  # no correction moves the total but at zero: the law of its noise is exact
            known_by = LinearLaw(joint, law, whole=table is not None)
        found = Marginal(
            estimate.schema.subset(*names),
            values,
            method=method or "least-squares",
            error_kind=law.kind if bootstrap is None else ErrorKind.CORRECTED,
            uncertainty=known_by,
            corrected=corrected,
            caption=caption,
        )
        out.append(found)
    return out


def _covered_joint(
    errors: ErrorBars,
    estimate: Estimate,
    names: tuple[str, ...],
    values: Floats,
    table: Covered | MomentTable | None,
) -> Joint | None:
    """How the cells of a covered table vary together; corrected ones as those of a table do."""
    source, nested = ReleaseSource(errors, estimate.corrected), errors.in_full(names)
    if table is None and nested:
        return None
    draws = partial(normal_draws, errors, names, values) if table is None else table.draws
    replicates = isinstance(table, Covered)
    if nested:  # in groups and in full: no product form has its errors
        return Joint((source,), draws, replicates=replicates)
    return Joint((source,), draws, partial(LinearForm.table, source, names, values.shape), replicates)


def _filled(  # noqa: PLR0917 (as _straight)
    estimate: Estimate,
    errors: ErrorBars,
    tables: Sequence[Sequence[str]],
    known: Known,
    method: str | None,
    caption: str,
) -> list[Marginal]:
    """Tables that are not covered, their gaps filled by a method.

    Where some of their attributes were never measured together they have bounds, whatever the method; otherwise only
    those of greatest entropy have intervals.
    """
    corrected = estimate.corrected != "none"
    linear = method == "least-squares" and not corrected
    if method in {None, LATENT_CLASSES}:
        known = _with_reference(estimate, errors, tables, known)
        if known.reference is None and method is not None:
            raise QueryError(
                f"there is no model of latent classes for {', '.join(tables[0])}: it needs wide views that call for it "
                "and all pairs measured; leave the method out, or use maximum-entropy"
            )
    method = method or ("maximum-entropy" if known.reference is None else LATENT_CLASSES)
    solve = linear_tables if linear else nearest_to_reference if method == LATENT_CLASSES else METHODS[method]
    kind, moments = ErrorKind.NONE, errors.moments(estimate)
    repeated = errors.bootstrap is not None and errors.sizes is not None
    if corrected and known.covered[0] and (repeated or moments is not None):
        modelled = ErrorKind.MODELLED if solve in {greatest_entropy, nearest_to_reference} else ErrorKind.NONE
        kind = modelled if _has_pairs(known) else ErrorKind.BOUNDS
    out = []
    for i, (names, solved) in enumerate(zip(tables, solve(known), strict=True)):
        known_by: Uncertainty | None = None
        joint, table = None, _unmeasured(estimate, errors, names, known.row(i), solved.values)
        if table is not None and (repeated or kind is ErrorKind.MODELLED):
            joint = Joint((ReleaseSource(errors, estimate.corrected),), table.draws)
        if kind is ErrorKind.BOUNDS:
            ends = partial(margin_bounds, partial(answer, estimate, errors), tuple(names), known.shape, known.subsets)
            known_by = Bounds(ends=ends, joint=joint, additive=repeated)
        elif kind is ErrorKind.MODELLED:
            known_by = Draws(joint=joint, modelled=True, cells=table)
        found = Marginal(
            estimate.schema.subset(*names),
            solved.values,
            method=method,
            error_kind=kind,
            uncertainty=known_by,
            corrected=corrected,
            relaxed=solved.relaxed,
            caption=caption,
        )
        out.append(found)
    return out


def _unmeasured(
    estimate: Estimate, errors: ErrorBars, names: Sequence[str], known: Known, values: Floats
) -> Modelled | MomentTable | None:
    """A table that was not measured, where something is known about how far it may be from the truth."""
    moments = errors.moments(estimate)
    if moments is not None:
        return MomentTable(moments, tuple(names), values)
    if errors.bootstrap is None or errors.sizes is None:
        return None
    sizes = partial(errors.sizes_beside, referred=known.reference is not None)
    return Modelled(errors.bootstrap, sizes, estimate, tuple(names), known, values)


def _with_reference(estimate: Estimate, errors: ErrorBars, tables: Sequence[Sequence[str]], known: Known) -> Known:
    """What is known, with the tables of the release's model where it has one and all pairs were measured."""
    chosen = errors.held_out() if errors.held_out is not None and known.covered[0] and _has_pairs(known) else None
    return known if chosen is None else replace(known, reference=chosen.reference(estimate, tables))


def _has_pairs(known: Known) -> bool:
    """Whether every two of its attributes were measured together; otherwise the table has only bounds."""
    axes = range(len(known.shape))
    pairs = [sum(1 << axis for axis in pair) for pair in combinations(axes, min(2, len(axes)))]
    return all(any(pair & subset == pair for subset in known.subsets) for pair in pairs)


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
        uncertainty=None if joint.uncertainty is None else joint.uncertainty.summed(added, error),
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
