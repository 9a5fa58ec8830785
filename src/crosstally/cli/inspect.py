"""``crosstally inspect``: the contents, privacy guarantee and accuracy of a release."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import crosstally as ct
from crosstally.cli.options import Json, ReleaseArgument, option
from crosstally.cli.output.screen import grid, joined, number_of, print_json, reading, significant
from crosstally.exports.formats import known

if TYPE_CHECKING:
    from rich.table import Table

    from crosstally.measurements import Measurement


EXAMPLES = (
    "crosstally inspect people.release.parquet",
    "crosstally inspect people.release.parquet --json",
    "crosstally inspect people.release.parquet --ledger people.ledger",
)


def inspect(
    release: ReleaseArgument,
    ledger: Annotated[
        Path | None, option("FILE", "Check the cost, the plan and the numbers against the ledger that paid.")
    ] = None,
    json: Json = False,
) -> None:
    """Show a release's attributes, promise, measurements and expected errors."""
    opened = ct.open_release(release)
    paid = None if ledger is None else _paid(opened, ledger)
    if json:
        print_json(_as_json(opened, paid))
    else:
        _show(opened, paid)


def _paid(release: ct.Release, path: Path) -> dict[str, Any]:
    from crosstally.cli.paid import check_paid

    return check_paid(release, ct.Ledger.open(path))


def _measured(release: ct.Release) -> list[dict[str, Any]]:
    """The measurements, grouped by number of attributes and kind of noise, with their range of standard errors."""
    groups: dict[tuple[int, str, str], list[Measurement]] = {}
    for each in release.bought:
        noise = "noise of the local model" if each.noise is None else each.noise.kind.value
        groups.setdefault((len(each.query.attributes), _kind(each), noise), []).append(each)
    return [
        {
            "attributes": ways,
            "kind": kind,
            "noise": noise,
            "tables": len(group),
            "cells": sum(each.values.size for each in group),
            "std_error": {
                "least": math.sqrt(min(each.variance for each in group)),
                "most": math.sqrt(max(each.variance for each in group)),
            },
        }
        for (ways, kind, noise), group in sorted(groups.items())
    ]


def _kind(measured: Measurement) -> str:
    summed = measured.query.summed
    if summed.measure is not None:
        return f"steps of {summed.measure}" if summed.values else f"rows with {summed.measure}"
    if measured.query.matrices:
        return "linear queries"
    return "groups of cells" if measured.query.groups else measured.query.kind


def _as_json(release: ct.Release, paid: dict[str, Any] | None) -> dict[str, Any]:
    from crosstally.releases.expected import expected_errors
    from crosstally.releases.publication import foreign_origins

    return {
        **({} if paid is None else {"ledger": paid}),
        "foreign": list(foreign_origins(release.statement, release.measurements)),
        "attributes": [
            {"name": attribute.name, "cells": attribute.size, "labels": list(attribute.labels)}
            for attribute in release.schema.attributes
        ],
        "statement": {**release.statement.to_dict(), "plain": list(release.statement.plain(release.schema))},
        "measurements": _measured(release),
        "counted": release.schema.counted,
        "units": _units(release),
        "choices": [{"tables": len(each.tables), "chosen": list(map(list, each.picked))} for each in release.choices],
        "expected_errors": [
            {
                "attributes": each.ways,
                "tables": each.tables,
                "covered": each.covered,
                "least": known(each.least),
                "median": known(each.middle),
                "most": known(each.most),
            }
            for each in expected_errors(release)
        ],
    }


def _units(release: ct.Release) -> dict[str, Any] | None:
    """How many units there are and how many rows the bound left out; null as the most where nothing bounds it."""
    units = release.units
    if units is None:
        return None
    (low, high), (least, most) = units.units_interval(), units.left_out_interval()
    return {
        "units": {"value": units.units, "low": low, "high": high},
        "left_out": {"value": units.left_out, "low": least, "high": known(most) if math.isfinite(most) else None},
        "level": 0.95,
    }


def _show(release: ct.Release, paid: dict[str, Any] | None) -> None:
    from crosstally.releases.publication import foreign_origins

    screen, statement = reading(), release.statement
    screen.print(number_of(len(release.schema.names), "attribute", "attributes"), style="bold")
    screen.put_table(_attributes(release))
    screen.print("\nprivacy", style="bold")
    for sentence in statement.plain(release.schema):
        screen.say(sentence)
    if statement.entry is not None and statement.paid == statement.entry:
        screen.say(f"Paid by {statement.entry}.", style="dim")
    for origin in foreign_origins(statement, release.measurements):
        screen.say(f"Beside what this promise covers it uses answers of {origin}, whose promise is their own.")
    if paid is not None:
        screen.say(_paid_words(paid))
    screen.print("\nmeasured", style="bold")
    screen.put_table(_measurements(release))
    for sentence in release.unit_words:
        screen.say(sentence)
    if release.choices:
        screen.say(_chosen_words(release))
    screen.print("\nstandard error of a cell", style="bold")
    screen.put_table(_errors(release))
    screen.say("Other tables can be asked for too: intervals allow for interactions that nobody measured.", style="dim")


def _paid_words(paid: dict[str, Any]) -> str:
    entries = f"entr{'y' if len(paid['entries']) == 1 else 'ies'} {', '.join(map(str, paid['entries']))}"
    plan = "The plan is the one that was charged." if paid["plan_checked"] else "The file is too old to name its plan."
    charged = f"{paid['charged']} of {paid['currency']}"
    return f"Checked with the ledger: {entries} charged {charged} and bought exactly these numbers. {plan}"


def _attributes(release: ct.Release) -> Table:
    table = grid("name", "labels", "cells", left=2)
    for attribute in release.schema.attributes:
        table.add_row(joined([attribute.name]), joined(attribute.labels), f"{attribute.size:,}")
    return table


def _measurements(release: ct.Release) -> Table:
    table = grid("what", "noise", "tables", "numbers", "standard error: min", "max", left=2)
    for each in _measured(release):
        ways = each["attributes"]
        rows = "number of rows" if each["kind"] == "cells" else each["kind"]
        what = f"{each['kind']} over {_attribute_count(ways)}" if ways else rows
        errors = map(significant, each["std_error"].values())
        table.add_row(what, each["noise"], f"{each['tables']:,}", f"{each['cells']:,}", *errors)
    return table


def _chosen_words(release: ct.Release) -> str:
    """A sentence about what was chosen by looking at the rows, which the budget also pays for."""
    picked = [table for each in release.choices for table in each.picked]
    tables = ", ".join(dict.fromkeys(" x ".join(table) for table in picked)) or "nothing was worth its noise"
    times = "once" if len(release.choices) == 1 else f"{len(release.choices):,} times"
    return (
        f"What to measure was chosen {times} by a noisy maximum (Gumbel noise on scores that nobody sees), which the "
        f"budget pays for: {tables}."
    )


def _errors(release: ct.Release) -> Table:
    from crosstally.releases.expected import MOST_TABLES, expected_errors

    table = grid("tables over", "covered", "min", "median", "max")
    for each in expected_errors(release):
        numbers = map(significant, (each.least, each.middle, each.most))
        table.add_row(
            _attribute_count(each.ways),
            f"{each.covered:,} of {each.tables:,}{'+' * (each.tables == MOST_TABLES)}",
            *numbers,
        )
    return table


def _attribute_count(ways: int) -> str:
    return number_of(ways, "attribute", "attributes")
