"""The page of the trusted base lists just the files that its entry points import, and tests that exist."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parent.parent
MADE = runpy.run_path(str(ROOT / "docs/trusted_page.py"))
COUNTING = {"sources/table_parts.py", "sources/counts.py", "sources/parts.py", "sources/kinds.py"}
ENCODING = {"sources/codes/encode.py", "sources/reading_options.py", "sources/source.py"}


def test_the_page_is_what_the_import_graph_says() -> None:
    assert MADE["PAGE"].read_text(encoding="utf-8") == MADE["page"](), "run python docs/trusted_page.py"


def test_every_file_is_in_one_table_and_every_entry_and_test_is_there() -> None:
    named = [file for entry in MADE["ENTRIES"] for file in entry.files.split()]
    only = [file for files, _, _ in MADE["ONLY_IMPORTED"] for file in files.split()]
    reached = set().union(*MADE["sections"]().values())
    assert len({*named, *only}) == len(named) + len(only)
    assert {*named, *only} <= reached
    for entry in MADE["ENTRIES"]:
        assert entry.tests
        for name in entry.tests.split():
            assert (ROOT / "tests" / f"{name}.py").is_file(), name


def test_what_counts_knows_neither_kinds_of_sources_nor_how_values_become_codes() -> None:
    counting, kinds, device = MADE["sections"]().values()
    assert {file for file in counting if file.startswith("sources/")} == COUNTING
    assert {
        *ENCODING,
        "sources/files.py",
        "sources/databases.py",
        "sources/spark.py",
        "sources/table_objects.py",
    } <= kinds
    assert all(file.startswith("local/client/") for file in device)
