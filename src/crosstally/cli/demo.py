"""``crosstally demo``: a complete example on generated people, in seconds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import crosstally as ct
from crosstally.budget import Budget, decimal_text
from crosstally.cli.options import option
from crosstally.cli.output.rendering import cell_texts
from crosstally.cli.output.screen import ACCENT, Screen, amount, count, facts, grid, progress, reading
from crosstally.cli.plan import comparison_table, stages_in_words
from crosstally.errors import CrosstallyError, MissingExtraError
from crosstally.platform_files import whole_file, write_text, writing
from crosstally.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.table import Table

    from crosstally.answers.marginal import Marginal
    from crosstally.strategies.planner import Comparison


EXAMPLES = ("crosstally demo", "crosstally demo --directory first-look")

_PEOPLE = 48_842  # the number of rows of Adult, which the generated people replace
_SEED = 1  # fixed, so that people are the same in each demo and in the docs; the noise is random
_KEY = "demo"
_MARKER = ".crosstally-demo"
_ROWS, _SCHEMA, _LEDGER = "people.csv", "people.schema.json", "people.ledger"
_RELEASE, _CHART = "people.release.parquet", "age-by-sex.svg"
_FILES = (_ROWS, _SCHEMA, _LEDGER, f"{_LEDGER}-wal", f"{_LEDGER}-shm", _RELEASE, _CHART)
_ONE = ("health",)
_TWO = ("age", "sex")
_THREE = ("household", "home")
_SLICED = ("income", "sex")
_INDENT = 3  # indentation of the output


def demo(
    directory: Annotated[Path, option("DIR", "The folder for the demo's files; a second run replaces them.")] = Path(
        "crosstally-demo"
    ),
) -> None:
    """See the whole story on generated people, in seconds."""
    from crosstally.generate.people import people

    _start_afresh(directory)
    screen = reading()
    import numpy as np

    with progress("generating people"):
        rows, schema = people(_PEOPLE, np.random.default_rng(_SEED))
        _write_rows(rows, schema, directory)
    _tell_people(screen, schema, directory)
    comparison = _compare(schema)
    _tell_plan(screen, comparison)
    release, ledger, truth = _release(rows, schema, comparison, directory)
    _tell_release(screen, release, ledger, directory)
    _tell_tables(screen, release, truth)
    _put(screen, facts([_picture(release, directory)]))
    _tell_unmeasured(screen, release, truth)
    _tell_promise(screen, release, ledger)
    _tell_next(screen)


# Computation


def _start_afresh(folder: Path) -> None:
    """An empty folder for the demo's files. Files of an earlier demo are removed; no other file is touched."""
    marker = folder / _MARKER
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not marker.exists():
            foreign = [name for name in _FILES if (folder / name).exists()]
            if foreign:
                raise CrosstallyError(
                    f"{str(folder)!r} holds {foreign[0]}, which no demo wrote: choose another --directory"
                )
            write_text(marker, "The files of crosstally demo; the next demo here replaces them.\n")
        for name in _FILES:
            (folder / name).unlink(missing_ok=True)
    except OSError as error:
        raise CrosstallyError(f"cannot write into the folder {str(folder)!r}: {error.strerror}") from None


def _write_rows(rows: pa.Table, schema: Schema, folder: Path) -> None:
    import pyarrow.csv

    with writing(folder / _ROWS), whole_file(folder / _ROWS) as file:
        pyarrow.csv.write_csv(rows, file)
    schema.save(folder / _SCHEMA)


def _compare(schema: Schema) -> Comparison:
    from crosstally.strategies import Direct, Flat, TwoStage, Views
    from crosstally.strategies.planner import Proposal, compare

    few = (TwoStage(), Flat(), Views(), Direct())  # a demo for first-time users
    return compare(schema, Proposal(Budget(epsilon=1), rows=_PEOPLE), strategies=few)


def _release(
    rows: pa.Table, schema: Schema, comparison: Comparison, folder: Path
) -> tuple[ct.Release, ct.Ledger, dict[tuple[str, ...], Any]]:
    """The release, the ledger that paid, and the true counts of the tables that are shown, the unmeasured one last."""
    from crosstally.pipeline import run
    from crosstally.sources import count as count_rows

    with progress("counting, adding noise"):
        ledger = ct.Ledger.create(folder / _LEDGER, schema=schema, budget=Budget(epsilon=3))
        release = run(str(folder / _ROWS), comparison.chosen, ledger=ledger, key=_KEY)
        release.save(folder / _RELEASE)
        tables = (_ONE, _TWO, _THREE, _unmeasured(release))
        exact = count_rows(rows, schema, tables)  # generated people: their truth may be shown
    return release, ledger, {names: table.counts for names, table in zip(tables, exact, strict=True)}


def _unmeasured(release: ct.Release) -> tuple[str, ...]:
    """A table of four attributes that no measured table contains. Noise decides which tables are measured."""
    others = combinations([name for name in release.schema.names if name not in _SLICED], 2)
    tables = [(*_SLICED, *both) for both in others]
    return next((names for names in tables if not release.covers(*names)), tables[0])


# Output


def _heading(screen: Screen, number: int, words: str) -> None:
    screen.print()
    screen.put(f"{number}  {words}", style=ACCENT)


def _say(screen: Screen, words: str, style: str = "") -> None:
    screen.say(words, style=style, indent=_INDENT)


def _put(screen: Screen, table: Table) -> None:
    screen.put_table(table, indent=_INDENT)


def _tell_people(screen: Screen, schema: Schema, folder: Path) -> None:
    screen.say("crosstally: tables about people, published without giving anyone away", style="bold")
    _heading(screen, 1, "A private table")
    _say(
        screen,
        f"{_PEOPLE:,} people, all of them generated: nobody real is here, so the truth may be shown below. "
        f"{len(schema.names)} attributes are known of each; this is how many values each can have:",
    )
    _say(screen, ", ".join(f"{attribute.name} {attribute.size}" for attribute in schema.attributes), "dim")
    _say(
        screen,
        f"That makes {schema.cells:,} combinations for {_PEOPLE:,} people: many are alone in theirs, and an exact "
        "table of everything would give them away.",
    )
    _put(screen, facts([("private", f"{folder / _ROWS}, with {_SCHEMA} beside it")]))


def _tell_plan(screen: Screen, comparison: Comparison) -> None:
    wanted = comparison.chosen.workload
    _heading(screen, 2, "A plan, before anything is spent")
    _say(
        screen,
        "Wanted: any table, of any number of attributes, for a privacy budget of ε = 1 (smaller is more private). "
        "People are protected by noise in every count, and its size is known without looking at the data, here for the "
        f"{len(wanted)} tables over one or two attributes:",
    )
    screen.print()
    _put(screen, comparison_table(comparison))
    screen.print()
    _say(screen, f"▸ {comparison.chosen.strategy} is chosen: {comparison.reason}.")
    _say(screen, stages_in_words(comparison.chosen))
    _say(
        screen,
        "1-way, 2-way: how far a count in tables over one or two attributes is from the true one, typically.",
        "dim",
    )


def _tell_release(screen: Screen, release: ct.Release, ledger: ct.Ledger, folder: Path) -> None:
    measured, size = release.measurements, (folder / _RELEASE).stat().st_size / 1000
    _heading(screen, 3, "The release")
    _say(screen, "The rows were counted once, noise was added to every count, and only that is in the file:")
    _put(
        screen,
        facts(
            [
                ("measured", f"{len(measured)} tables ({sum(each.values.size for each in measured):,} noisy counts)"),
                ("cost", f"{amount(ledger.spent, ledger.currency)}, recorded in {folder / _LEDGER}"),
                ("public", f"{folder / _RELEASE}, {size:,.0f} kB: one file, any table"),
            ]
        ),
    )


def _tell_tables(screen: Screen, release: ct.Release, counts: dict[tuple[str, ...], Any]) -> None:
    _heading(screen, 4, "Three tables from it, beside the truth")
    _say(screen, "The truth is shown because these people are generated; about real people it is never printed.", "dim")
    within = cells = 0
    for names in (_ONE, _TWO, _THREE):
        marginal, truth = release.marginal(*names), counts[names]
        screen.print()
        _put(screen, _beside_truth(marginal, truth))
        within += _held(marginal, truth)
        cells += truth.size
    screen.print()
    _say(
        screen,
        f"(... to ...): a 95% interval. Of these {cells} it holds the truth for {within}; about "
        f"{0.95 * cells:.0f} can be expected.",
    )


def _tell_unmeasured(screen: Screen, release: ct.Release, counts: dict[tuple[str, ...], Any]) -> None:
    """Print one slice of an unmeasured table, and the error over the whole table."""
    *_, (names, truth) = counts.items()
    marginal = release.marginal(*names)
    fixed = {name: marginal.schema[name].labels[-1] for name in names[2:]}
    part = release.marginal(*names[:2], where=fixed)
    off = float(((marginal.values - truth) ** 2).mean() ** 0.5)
    supposed = marginal.error_kind.assumption
    screen.print()
    _say(
        screen,
        f"And one that nobody measured: {', '.join(names[:-1])} and {names[-1]} together, {truth.size} counts, here "
        f"those with {' and '.join(f'{name} {label}' for name, label in fixed.items())}. It is the least assuming "
        "table that agrees with all that was measured (maximum entropy)."
        + (f" Behind its 95% intervals: {supposed}." if supposed else ""),
    )
    screen.print()
    _put(screen, _beside_truth(part, truth[..., -1, -1]))
    screen.print()
    held = _held(marginal, truth)
    _say(
        screen,
        f"Of its {truth.size} counts {held} are within; they are off the truth by {off:,.0f} people, typically.",
    )


def _held(marginal: Marginal, truth: Any) -> int:
    """How many intervals contain the true count."""
    low, high = marginal.interval()
    return int(((low <= truth) & (truth <= high)).sum())


def _beside_truth(marginal: Marginal, truth: Any) -> Table:
    """Each value of the second attribute with its answers and the true count beside them."""
    down, *across = marginal.schema.attributes
    labels = across[0].labels if across else ("published",)
    headings = [text for label in labels for text in (label, "truth")]
    table = grid(f"{down.name} by {across[0].name}" if across else down.name, *headings)
    published = iter(cell_texts(marginal, None))
    for label, known in zip(down.labels, truth.reshape(down.size, -1), strict=True):
        table.add_row(label, *(text for each in known for text in (next(published), count(each))))
    for column in table.columns[2::2]:
        column.style = "dim"
    return table


def _picture(release: ct.Release, folder: Path) -> tuple[str, str]:
    try:
        from crosstally.charts import save

        with progress("drawing"):
            save(release.marginal(*_TWO).plot(), folder / _CHART)
    except MissingExtraError as error:
        return "no picture", str(error)
    return "picture", f"{folder / _CHART}, the second table with its error bars"


def _tell_promise(screen: Screen, release: ct.Release, ledger: ct.Ledger) -> None:
    _heading(screen, 5, "The promise")
    for sentence in release.statement.plain(release.schema):
        _say(screen, sentence)
    entry = ledger.entries()[-1]
    spent, left = amount(ledger.spent, ledger.currency), amount(ledger.remaining, ledger.currency)
    cap = decimal_text(ledger.budget.amount)
    line = (
        f"entry {entry.number}, {entry.strategy}, {entry.state}: {spent} of {cap} spent, {left} left for these people"
    )
    _put(screen, facts([("ledger", line)]))


_NEXT: Sequence[tuple[str, str]] = (
    (
        "Guess the attributes and their values, then review them, since they become public:",
        "crosstally schema draft yours.csv -o yours.schema.json",
    ),
    ("See the error to expect; free:", "crosstally plan yours.schema.json --rows 50000 --epsilon 1"),
    (
        "Make the release, from which anyone can read tables:",
        "crosstally release yours.csv --schema yours.schema.json --epsilon 1",
    ),
)


def _tell_next(screen: Screen) -> None:
    _heading(screen, 6, "Now your own file")
    for words, command in _NEXT:
        _say(screen, words, "dim")
        screen.put(" " * 2 * _INDENT + command, style="bold")
