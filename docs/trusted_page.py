"""Writes docs/project/trusted-base.md: the import graph says which files, the table here what each must ensure."""

from __future__ import annotations

import ast
import runpy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/project/trusted-base.md"
HOUSE = runpy.run_path(str(ROOT / "scripts/house.py"))
JOINING = {"pipeline.py", "notebook/notebook.py", "sources/kinds.py"}
"""Trusted for how they call the entry points, not for all they import."""

HEAD = """# The trusted base

This page is for reviewers of the privacy guarantee. crosstally guarantees that **the cost charged is at least the
true cost**: the privacy loss of everything that a release, a question or a device publishes is at most what the
ledger, or the device's store, has recorded. This page lists every file that the guarantee depends on, what each file
must ensure, and which tests check it. A fault in any other file can make numbers wrong; it cannot make them cost more
than was charged.

`make docs` writes this page from the import graph, and a test (`tests/test_trusted_base.py`) compares the two: the
lists hold every module that the entry points import, directly or indirectly. The entry points are
`privacy/measure.py`, the only way from counts to noisy numbers; `sources/counts.py`, which makes the counts;
`sources/parts.py`, which writes them to a file and adds up such files: **the only export of exact counts**.
`sources/kinds.py`, `pipeline.py` and `notebook/notebook.py` call these in order.
"""
SECTIONS = {
    "Files that the guarantee depends on": "",
    "Readers and encoders": """Whoever counts knows rows as codes, not how they were read or encoded. Files here go
row by row: they may misread a row, and cannot read another. The id of a unit they must read alike in every row, since
the bound is of rows of equal ids. Queries, grouping in a database and Spark do more, as their lines say.
""",
    "On a person's device": """`local/client/` runs on a device, with the standard library alone.
""",
}


@dataclass(frozen=True)
class Entry:
    """Files, what they must ensure, and the tests of it (below ``tests``)."""

    files: str
    ensures: str
    tests: str


ENTRIES = (
    Entry(
        "privacy/measure.py",
        (
            "charge, draw, store, in this order; every request is answered from the table it names, with the noise it"
            " was charged for"
        ),
        "privacy/test_measure test_canary",
    ),
    Entry(
        "privacy/noise.py",
        "the sampler has the kind and scale that were asked for, over whole numbers, without overflow",
        "privacy/test_noise",
    ),
    Entry(
        "privacy/ledger.py",
        "a charge is checked against the cap and recorded before it returns; what was drawn is stored once",
        "privacy/test_ledger",
    ),
    Entry(
        "privacy/ledger_records.py",
        (
            "the spent amount is the sum of all charges; stored plans and numbers are those that were hashed, and are"
            " returned unchanged; one key, one request; a ledger whose charges are not the prices of their plans is not"
            " opened; a file that was cut, changed or replaced by an older copy is found"
        ),
        "privacy/test_ledger privacy/test_ledger_file privacy/test_ledger_years",
    ),
    Entry(
        "privacy/ledger_file.py",
        "what was acknowledged is in the file; events are only added, each hashed with the one before",
        "privacy/test_ledger_file privacy/test_ledger_processes",
    ),
    Entry(
        "privacy/ledger_lock.py",
        "one writer at a time, under every name of the file",
        "privacy/test_ledger_names",
    ),
    Entry(
        "plans/plan.py",
        "the cost of a plan is that of all its requests together, and never above its budget",
        "privacy/test_sensitivity strategies/test_strategies",
    ),
    Entry(
        "plans/request.py",
        "grouping equal requests loses none of them; the budgets of all stages add up to no more than the whole",
        "plans/test_joint_sensitivity test_stages test_exact_budgets",
    ),
    Entry(
        "plans/joint_cost.py",
        "the joint cost of all queries is never below the loss of any pair of neighbours",
        "plans/test_joint_sensitivity plans/test_measures privacy/test_sensitivity",
    ),
    Entry(
        "plans/linear_cost.py",
        "the same of linear queries",
        "plans/test_linear_cost",
    ),
    Entry(
        "query/queries.py",
        "the sensitivity of each query, and its correct answer",
        "query/test_queries privacy/test_sensitivity",
    ),
    Entry(
        "query/summed.py",
        "how far one unit can move a table of sums, by the public bounds of the measure",
        "plans/test_measures",
    ),
    Entry(
        "query/linear.py",
        "the sensitivity of a linear query, and its correct answer",
        "query/test_queries plans/test_linear_cost",
    ),
    Entry(
        "query/unit_table.py",
        "the sensitivity of units by number of rows: each unit is in one bin",
        "privacy/test_unit_table",
    ),
    Entry(
        "query/choice.py",
        "no unit changes a score by more than the stated sensitivity; scores are whole numbers and are not published",
        "privacy/test_choice",
    ),
    Entry(
        "query/query_json.py",
        "a query is read as it was written",
        "query/test_queries test_groups",
    ),
    Entry(
        "query/ways.py",
        "an attribute has one grouping in a release; a grouped table takes the place of no other",
        "test_groups residuals/test_nested",
    ),
    Entry(
        "query/operators.py",
        "what one row adds along an attribute: values, groups, a contrast or a matrix, and the norms of it",
        "query/test_kronecker query/test_contrast_map plans/test_costs privacy/test_sensitivity",
    ),
    Entry(
        "query/contrast_moves.py",
        "how far one replaced row changes a contrast",
        "strategies/test_contrast_moves",
    ),
    Entry(
        "budget.py",
        "amounts are exact; scales are rounded up, budgets down; (epsilon, delta) implies the rho it is exchanged for",
        "test_budget test_exact_budgets privacy/test_accounting",
    ),
    Entry(
        "gaussian_curve.py",
        "what noise costs in mu^2 is never too low; the mu^2 of a cap implies no more than its epsilon and delta",
        "privacy/test_gaussian_curve privacy/test_mu_accounts",
    ),
    Entry(
        "schema/schema.py schema/unit.py schema/attribute.py schema/canonical.py",
        (
            "who is protected (the unit, and its largest number of rows or how it is divided over them), and which "
            "cells exist; a ledger identifies both by `identity`"
        ),
        "schema/test_schema schema/test_schema_file plans/test_divided_units privacy/test_periods",
    ),
    Entry(
        "schema/measures.py",
        "the bounds of a measure are public whole numbers of steps, few enough for 64 bits; a ledger identifies them",
        "releases/test_amounts",
    ),
    Entry(
        "schema/reading.py",
        "the meaning of a value depends on that value alone; nothing of it is printed or published",
        "schema/test_row_reading privacy/test_readings",
    ),
    Entry(
        "measurements.py",
        "confidential counts cannot be printed, pickled or used as a measurement",
        "test_canary privacy/test_measure",
    ),
    Entry(
        "platform_files.py",
        "a working lock if the system has one, and files that only their owner can read",
        "test_platform_files privacy/test_ledger_names",
    ),
    Entry(
        "threads.py",
        "every piece of work is done once, and results come in the order of the pieces",
        "test_in_order privacy/test_noise sources/test_counts",
    ),
    Entry(
        "json_text.py",
        "a file has one meaning: no field twice, no number that is not finite",
        "test_strict_files",
    ),
    Entry(
        "pipeline.py",
        (
            "the tables measured are counts of the source by the plan's schema; a stage that was charged is never "
            "planned again"
        ),
        "test_pipeline test_stages test_one_shot",
    ),
    Entry(
        "notebook/notebook.py",
        "what `pipeline.py` must ensure, for questions",
        "notebook/test_notebook",
    ),
    Entry(
        "sources/counts.py",
        (
            "every row counts once in every table; at most `max_rows` rows of each unit count, chosen by its own rows"
            " alone; all stages count the same rows, by codes that no other user can read"
        ),
        "sources/test_counts sources/test_units test_one_shot",
    ),
    Entry(
        "sources/table_parts.py",
        "a row adds to one cell of each table, of a measure no more than its bounds; sums stay within 64 bits",
        "sources/test_counts releases/test_amounts",
    ),
    Entry(
        "sources/source.py",
        (
            "each row of a source is handed on once, no error contains a value of it, its codes depend on it alone; "
            "every attribute, and the unit's id, is read from its own column, by its own rule"
        ),
        "sources/test_rows sources/test_own_source sources/test_counts sources/test_units privacy/test_readings",
    ),
    Entry(
        "sources/parts.py",
        (
            "each row is in one share of a source, and all rows of a unit are in the same; only its owner reads a "
            "part; only all shares of one source, each once, counted for one plan in one way, are added up; no error "
            "contains a count"
        ),
        "sources/test_parts formats/test_formats",
    ),
    Entry(
        "sources/files.py",
        "each row of the source comes once, and depends on no other row",
        "sources/test_rows sources/test_same_rows test_one_shot",
    ),
    Entry(
        "sources/table_objects.py",
        (
            "each row of the source comes once, and depends on no other row; a query of Spark or Polars whose plan "
            "mixes rows is refused, or asserted"
        ),
        "sources/test_rows sources/test_same_rows test_one_shot sources/test_lazy_plans sources/test_spark",
    ),
    Entry(
        "sources/databases.py",
        (
            "one query gives the rows, once, as they were at one moment; nothing is changed; rows that a database "
            "groups have equal cells, under every collation; each group counts as often as it has rows"
        ),
        "sources/test_databases sources/test_grouped_query",
    ),
    Entry(
        "sources/drivers.py",
        (
            "each row of the query comes once, no value rounded or cut, and depends on no other row; no password is "
            "shown; errors of drivers contain no values of rows"
        ),
        "sources/test_odbc sources/test_databases",
    ),
    Entry(
        "sources/one_select.py",
        (
            "a query whose rows may depend on other rows is refused; the database runs what was checked; each row of "
            "a query depends on rows of one unit and on tables declared public; no aggregate is taken for a column"
        ),
        "sources/test_one_select sources/test_joins",
    ),
    Entry(
        "sources/joins.py",
        (
            "each row of a query depends on rows of one unit and on tables declared public; no aggregate is taken for"
            " a column"
        ),
        "sources/test_joins",
    ),
    Entry(
        "sql_trees.py",
        "no class and no argument of a query's tree is overlooked",
        "sources/test_one_select sql/test_random_selects",
    ),
    Entry(
        "sources/spark.py",
        (
            "each row of a DataFrame comes once, without random sampling; errors and logs of Spark contain no values "
            "of rows; the counts are those of one successful attempt of each task; all rows of a unit went to one "
            "task; stages count the same rows"
        ),
        "sources/test_spark sources/test_spark_tasks",
    ),
    Entry(
        "sources/spark_tasks.py",
        (
            "the cells, bounds and counts of a partition are those of the same rows outside of Spark; rows of one "
            "unit have one place"
        ),
        "sources/test_spark_tasks sources/test_spark",
    ),
    Entry(
        "sources/text_files.py",
        "how a text file is read depends on the steward's options and on its column names, never on its rows",
        "sources/torture/test_torture sources/test_rows",
    ),
    Entry(
        "sources/reading_options.py",
        (
            "how a text file is read depends on the steward's options and on its column names, never on its rows; a "
            "number is rewritten independently of others; an ambiguous column is refused before anything is spent"
        ),
        "sources/torture/test_torture sources/test_rows sources/test_numbers",
    ),
    Entry(
        "sources/apart.py",
        "the text of a cell depends on that cell alone",
        "sources/test_same_rows",
    ),
    Entry(
        "sources/guard.py",
        "errors of readers contain no values of rows",
        "test_canary sources/test_rows",
    ),
    Entry(
        "sources/codes/arrays.py sources/codes/encode.py sources/codes/values.py",
        "the code of a value, and the text of an id, depends on that value alone",
        "sources/codes/test_values sources/codes/test_bins privacy/test_readings",
    ),
    Entry(
        "sources/codes/steps.py",
        "the steps of a value depend on that value alone; an error names none",
        "releases/test_amounts",
    ),
    Entry(
        "kernels/counting.py",
        "the compiled loops count each row once, within the bounds of their arrays",
        "kernels/test_counting kernels/test_checked_kernels",
    ),
    Entry(
        "kernels/lookup.py kernels/matching.py",
        "the code of a value depends on that value alone; the compiled loops stay within the bounds of their arrays",
        "kernels/test_lookup kernels/test_matching kernels/test_checked_kernels",
    ),
    Entry(
        (
            "local/client/field_rules.py local/client/protocol_checks.py local/client/draws.py "
            "local/client/reporting.py local/client/row_codes.py local/client/store.py"
        ),
        (
            "a device checks the whole protocol, charges, and only then reads its row; every draw has the "
            "probabilities that the protocol states, in any group that a token gives"
        ),
        "local/test_hostile local/test_store local/test_client local/test_tokens",
    ),
    Entry(
        "sources/kinds.py",
        ("all rows of the source are encoded and counted, by one schema; what a user gave is read as the kind it is"),
        "sources/test_own_source sources/test_same_rows sources/test_counts",
    ),
)

ONLY_IMPORTED = (
    ("checks.py errors.py", "refusals of what has the wrong kind; errors", "they raise, and compute nothing"),
    ("html_text.py", "schemas, plans and measurements show themselves in notebooks", "what they show is publishable"),
    (
        "schema/facts.py",
        "a schema describes its data",
        "no cell that is counted depends on a description or a fact",
    ),
    ("typing.py", "the names of array types", "it contains names of types"),
    ("workload.py", "a plan says which tables it is for", "the cost follows from the requests alone"),
)


def sections() -> dict[str, set[str]]:
    """The files of each table, by the import graph."""
    found = [HOUSE["trusted"](), HOUSE["readers"](), HOUSE["device"]()]
    named = [{path.relative_to(HOUSE["PACKAGE"]).as_posix() for path in paths} for paths in found]
    named[0] |= JOINING
    named[1] -= JOINING
    return dict(zip(SECTIONS, named, strict=True))


def first_sentence(file: str) -> str:
    """What a file says of itself."""
    text = ast.get_docstring(ast.parse((HOUSE["PACKAGE"] / file).read_text(encoding="utf-8"))) or ""
    return text.split("\n\n")[0].replace("\n", " ").split(". ")[0].rstrip(".").replace("|", "/")


def _in_code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _lines(files: set[str]) -> Iterator[str]:
    """The entries that hold some of the files; what has no entry says what it is itself."""
    left = set(files)
    for entry in ENTRIES:
        own = [file for file in entry.files.split() if file in files]
        left -= {*own}
        if own:
            tests = (f"tests/{name}.py" for name in entry.tests.split())
            yield f"| {_in_code(own)} | {entry.ensures} | {_in_code(tests)} |"
    for file in sorted(left):
        yield f"| `{file}` | {first_sentence(file)} | |"


def page() -> str:
    """The whole page."""
    only = {file for files, _, _ in ONLY_IMPORTED for file in files.split()}
    text = [HEAD]
    for (title, about), files in zip(SECTIONS.items(), sections().values(), strict=True):
        table = ["| file | what it must ensure | tests |", "| --- | --- | --- |", *_lines(files - only)]
        text += [f"## {title}\n", *([about] if about else []), "\n".join(table) + "\n"]
    rows = [f"| {_in_code(files.split())} | {why} | {harmless} |" for files, why, harmless in ONLY_IMPORTED]
    table = ["| file | why it is imported | why no guarantee depends on it |", "| --- | --- | --- |", *rows]
    return "\n".join([*text, "## Files that are imported only\n", "\n".join(table) + "\n"])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
