"""``crosstally plan``: print the expected error in words, and what would change it, before anything is spent."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import crosstally as ct
from crosstally.budget import MOST_EPSILON, Budget, Neighbours
from crosstally.cli.options import (
    Accept,
    BudgetOptions,
    CheckFailedError,
    Force,
    Json,
    PlanOptions,
    Quiet,
    Relation,
    argument,
    budget_option,
    check_output,
    check_reviewed,
    flag,
    option,
)
from crosstally.cli.output.screen import (
    Screen,
    chosen_row,
    count,
    data,
    grid,
    number_of,
    people,
    print_json,
    printable,
    progress,
    tenths,
)
from crosstally.errors import BudgetError, SchemaError
from crosstally.exports.formats import known
from crosstally.platform_files import writing
from crosstally.schema import Schema

if TYPE_CHECKING:
    from rich.table import Table

    from crosstally.releases.acceptance import Verdict
    from crosstally.strategies.advice import Advice
    from crosstally.strategies.planner import Comparison
    from crosstally.strategies.verdicts import ExpectedError


EXAMPLES = (
    "crosstally plan people.schema.json --rows 50000 --epsilon 1",
    "crosstally plan people.schema.json --rows 50000 --epsilon 1 --ways 3 -o people.plan.json",
    "crosstally plan people.schema.json --target-error 50 --tables sex,age --tables region",
)
_MOST_ORDERS = 4  # columns of errors: more do not fit

TargetError = Annotated[
    float | None, budget_option("COUNT", "Instead of a budget: find the least ε that gives this RMS error.")
]
AboutRows = Annotated[
    int | None, option("N", "About how many rows there are, to show errors as a share of them.", min=0)
]
PlanOutput = Annotated[
    Path | None, option("FILE", "Save the chosen plan, for approval and for `release --plan`.", "--output", "-o")
]


def plan(
    schema: Annotated[Path, argument("SCHEMA", "The schema of the table.")],
    *,
    spend: BudgetOptions,
    target_error: TargetError = None,
    neighbours: Relation = None,
    wanted: PlanOptions,
    rows: AboutRows = None,
    ledger: Annotated[Path | None, option("FILE", "The ledger that would pay; the plan says whether it can.")] = None,
    accept: Accept = None,
    output: PlanOutput = None,
    strategies: Annotated[
        bool, flag("Show what every strategy would measure, not only the chosen one.", "--compare")
    ] = False,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Print the error to expect and what would change it most. Free: no data is read."""
    from crosstally.strategies.planner import compare, read_strategies, rests_on_rows

    read = _load(schema)
    payer = None if ledger is None else ct.Ledger.open(ledger)
    if output is not None:
        check_output(output, force=force)
        check_reviewed(read, schema)
    relation = neighbours or Neighbours.ADD_REMOVE
    if target_error is None:
        budget = spend.budget()
    else:
        budget = _least_budget(read, spend, wanted, target_error, neighbours=relation, rows=rows)
    proposal = wanted.proposal(read, budget, relation, rows)
    asked = read_strategies(wanted.strategy or "auto") if strategies or json else wanted.strategies()
    with progress("planning", quiet=quiet or json):
        found = compare(read, proposal, strategies=asked, currency=None if payer is None else payer.currency)
        if payer is not None and found.chosen.requests:
            payer.check(found.chosen)
            payer.check_left(found.chosen)
        advice = found.advice()
        verdicts = () if accept is None else judged(found.chosen, accept, rows)
    if output is not None:
        with writing(output):
            found.chosen.save(output)
    if json:
        print_json({**comparison_json(found, advice), "criteria": [each.to_dict() for each in verdicts]})
    else:
        _show(found, advice, strategies=strategies)
        show_verdicts(verdicts)
    if not (quiet or json):
        options = [] if neighbours is None else ["--neighbours", neighbours.value]
        payment = [] if ledger is None else ["--ledger", str(ledger)]
        # `release --rows` takes that number as exact; here it is a guess, so such a plan goes through a file
        by_rows = output is None and rests_on_rows(read, proposal, strategies=wanted.strategies())
        if by_rows:
            options = ["--rows", str(rows), *options]
        _tell(found, schema, output, [*options, *wanted.given()], by_rows=by_rows, payment=payment)
    if accept is not None and (words := failed(verdicts)):
        raise CheckFailedError(f"the forecast does not pass: {words}")


def judged(planned: ct.Plan, accept: Path, rows: int | None) -> tuple[Verdict, ...]:
    """What the forecast of a plan says of the criteria in a file."""
    from crosstally.releases.acceptance import Criteria, judge_plan

    return judge_plan(planned, Criteria.load(accept), rows)


def show_verdicts(verdicts: Sequence[Verdict]) -> None:
    """Print a line for each criterion."""
    screen = data()
    for each in verdicts:
        asked, found, word = each.row()
        screen.say(f"{word}: {printable(asked)}: {found}", hang=2)


def failed(verdicts: Sequence[Verdict]) -> str:
    """The criteria that are not met, in words; empty if all are."""
    return "; ".join(f"{printable(each.criterion.name)}: {each.word}" for each in verdicts if each.word != "pass")


def _least_budget(
    schema: Schema,
    spend: BudgetOptions,
    wanted: PlanOptions,
    target: float,
    *,
    neighbours: Neighbours,
    rows: int | None,
) -> Budget:
    """The least epsilon that reaches a target for the error."""
    from crosstally.strategies.planner import solve_epsilon

    if spend.epsilon is not None or spend.rho is not None:
        raise BudgetError("--target-error finds epsilon: leave out --epsilon and --rho")
    # epsilon is searched for: this one only gives the kind of budget
    proposal = wanted.proposal(schema, Budget(epsilon=1, delta=spend.delta, rule=spend.rule), neighbours, rows)
    with progress("looking for the least epsilon"):
        return solve_epsilon(schema, proposal, target, strategies=wanted.strategies())


def _load(path: Path) -> Schema:
    """The schema in a file; for a file of rows, the error says how to draft a schema from it."""
    try:
        return Schema.load(path)
    except SchemaError as error:
        if path.suffix.lower() == ".json" or not path.is_file():
            raise
        drafted = path.with_name(f"{path.name.partition('.')[0] or path.name}.schema.json")
        draft = shlex.join(["crosstally", "schema", "draft", str(path), "-o", str(drafted)])
        raise SchemaError(f"{error}; a plan needs a schema: if these are rows, draft one with {draft}") from None


def comparison_json(found: Comparison, advice: Sequence[Advice]) -> dict[str, Any]:
    """A comparison as JSON, with the expected error and what would change it."""
    return {
        "chosen": found.chosen.strategy,
        "reason": found.reason,
        "budget": found.chosen.budget.to_dict(),
        "neighbours": found.chosen.neighbours.value,
        "counted": found.chosen.schema.counted,
        "units_share": float(found.chosen.units_share),
        "rows": found.rows,
        "workload": {"tables": len(found.chosen.workload), "cells": found.chosen.workload.cells(found.chosen.schema)},
        "plans": [
            {
                "strategy": each.strategy,
                "covers": seen.covers,
                "tables": len(seen.requests),
                "cells": seen.cells,
                "rms_error": known(seen.rms_error),
                "score": known(seen.score),
                "later": [rule.to_dict() for rule in each.later],
            }
            for each, seen in zip(found.plans, found.outlooks, strict=True)
        ],
        "refused": [{"strategy": name, "reason": reason} for name, reason in found.refused],
        "expected": list(map(_expected_json, found.expected)),
        "advice": [
            {
                "kind": each.kind.value,
                "change": each.alternative.change,
                "options": list(each.alternative.options),
                "times": known(each.times),
                "expected": _expected_json(each.after),
            }
            for each in advice
        ],
    }


def _expected_json(expected: ExpectedError) -> dict[str, Any]:
    return {
        "attributes": expected.order,
        "error": known(expected.error),
        "cells": expected.cells,
        "share": known(expected.share),
        "verdict": expected.verdict,
        "likely": known(expected.likely),
        "at_best": known(expected.at_best),
    }


def comparison_table(found: Comparison) -> Table:
    """One row for each strategy, the chosen one marked: the typical error of tables, by number of attributes."""
    orders = list(found.outlook.order_errors)[:_MOST_ORDERS]
    table = grid("", "strategy", "tables", "numbers", *(f"{order}-way" for order in orders), left=2)

    def rank(one: tuple[ct.Plan, ct.Plan]) -> tuple[bool, float]:
        return not one[1].covers, one[1].score

    for plan, each in sorted(zip(found.plans, found.outlooks, strict=True), key=rank):
        chosen = plan is found.chosen
        errors = [tenths(each.order_errors.get(order, math.nan)) for order in orders]
        row = ["▸" if chosen else " ", each.strategy, count(len(each.requests)), count(each.cells), *errors]
        chosen_row(table, row, chosen=chosen)
    return table


def _show(found: Comparison, advice: Sequence[Advice], *, strategies: bool) -> None:
    """Print the expected error in words, what would change it, and, if asked for, a table of all strategies."""
    from crosstally.releases.statement import belief, caveats
    from crosstally.strategies.verdicts import totals_in_words, units_in_words

    chosen, screen = found.chosen, data()
    schema, wanted = chosen.schema, chosen.workload
    screen.print(f"{chosen.budget}, {chosen.neighbours.value}", style="bold")
    screen.say(
        f"{number_of(len(schema.names), 'attribute', 'attributes')}; wanted: "
        f"{number_of(len(wanted), 'table', 'tables')} with {wanted.cells(schema):,} cells"
        f"{', counts of ' if schema.unit else ''}{schema.bounded_words}.",
        style="dim",
    )
    screen.say(belief(chosen.budget, chosen.neighbours, schema), style="dim")
    screen.print()
    for expected in found.expected:
        screen.say(str(expected))
    if wanted.along and chosen.covers:
        asked = ", ".join(
            f"{each if isinstance(each, str) else 'rows'} of {printable(name)}" for name, each in wanted.along
        )
        screen.say(f"What is asked of the tables wanted, {asked}, will be within ± {chosen.rms_error:,.3g} (RMS).")
    if words := units_in_words(chosen):
        screen.say(words, style="dim")
    for words in totals_in_words(chosen).splitlines():
        screen.say(words)
    if words := stages_in_words(chosen):
        screen.say(words, style="dim")
    if advice:
        screen.print()
        screen.say(f"What would change {advice[-1].before.tables} most:")
        for each in advice:
            screen.say(f"- {printable(each)}{_as_options(each)}", indent=2, hang=2)
    for sentence in caveats(chosen.schema):
        screen.say(sentence)
    if strategies:
        _show_strategies(found, screen)


def _as_options(advice: Advice) -> str:
    return f" ({shlex.join(advice.alternative.options)})" if advice.alternative.options else ""


def _show_strategies(found: Comparison, screen: Screen) -> None:

    screen.print()
    screen.put_table(comparison_table(found))
    screen.print()
    for name, reason in found.refused:
        screen.say(f"{name} cannot: {printable(reason)}", style="dim", indent=2)
    screen.say(f"▸ {found.chosen.strategy} is chosen: {found.reason}.")
    screen.say(_ERRORS_IN_WORDS, style="dim")


_ERRORS_IN_WORDS = (
    "1-way, 2-way, ...: the typical distance (RMS) of a published count from the true one, in tables over so many "
    "attributes, before negative counts are corrected; ? where a table is predicted."
)


def stages_in_words(plan: ct.Plan) -> str:
    """A description of each stage of a plan; empty if there is only one stage."""
    if not plan.later:
        return ""
    rule = plan.later[0]
    if rule.name != "two-stage":
        left = f"{float(1 - plan.share):.0%} of the budget"
        if len(plan.later) > 1:
            return (
                f"{len(plan.later)} later stages, with {left} together, ask what {rule.name} chooses by those before."
            )
        return f"A later stage, with {left}, measures what {rule.name} chooses by the first."
    ones = "one-way tables that are not public" if plan.schema.public_counts() else "one-way tables"
    first = f"{float(plan.share - plan.units_share - plan.totals_share):.0%} of the budget"
    if rule.parameters.get("look"):
        return (
            f"First come the total and the {ones}, with {first}. Then {float(rule.share):.1%} looks which pairs of "
            "attributes are far from what these predict: a noisy choice, which may be of none. The rest measures what "
            "was found, in groups of values, and the one-way tables again. Other tables are predicted."
        )
    if len(plan.later) > 1:
        first += f" ({float(1 - plan.later[-1].share):.0%} where rows are few)"
    return (
        f"First come the total and the {ones}, with {first}; then those larger "
        "tables that are worth their noise, as the noisy one-way tables show. Other tables are predicted from "
        "what was measured. The errors above are those of measuring all of them; leaving some out makes the others "
        "more accurate."
    )


def _tell(
    found: Comparison,
    schema: Path,
    output: Path | None,
    options: Sequence[str],
    *,
    by_rows: bool,
    payment: Sequence[str],
) -> None:
    """Print the command that runs exactly what was planned."""
    screen, chosen = people(), found.chosen
    if chosen.schema.draft:
        screen.say("The schema is a draft: review it and remove its draft mark before a release.")
        return
    # Nothing is measured: the release then consists of the number of rows, which must be public.
    rows = [] if chosen.requests else ["--rows", "ROWS" if found.rows is None else str(found.rows)]
    reading = [] if chosen.schema.reading is None else ["--schema", schema]  # a plan does not hold it
    budget = [text for field, number in chosen.budget.to_dict().items() for text in (f"--{field}", number)]
    if output is not None:
        screen.put(f"Saved {output}. Run exactly this: {_release('--plan', output, *reading, *rows, *payment)}")
    elif by_rows:
        file = schema.with_name(f"{schema.name.removesuffix('.json').removesuffix('.schema')}.plan.json")
        plan = shlex.join(["crosstally", "plan", str(schema), *budget, *options, *payment, "-o", str(file)])
        screen.put(f"Next: {plan} && {_release('--plan', file, *reading, *rows, *payment)}")
    else:
        meant = ["--yes-epsilon"] if (chosen.budget.epsilon or 0) > MOST_EPSILON else []
        screen.put(f"Next: {_release('--schema', schema, *budget, *meant, *options, *rows, *payment)}")


def _release(*options: object) -> str:
    return shlex.join(["crosstally", "release", "SOURCE", *map(str, options)])
