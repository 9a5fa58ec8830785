"""The threat model: every statement in it names tests that are there, or says that it has none."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

import crosstally as ct
from crosstally.errors import OutsideValueError

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs/concepts/threat-model.md").read_text(encoding="utf-8")
_NAMED = re.compile(r"`(test_\w+)`")
_FILES = re.compile(r"`(tests/[\w/]+\.py)`")
_NONE = re.compile(r"\bno test\b", re.IGNORECASE)


def statements(page: str) -> list[str]:
    """Paragraphs, points of lists and lines of tables, without headings and the heads of tables."""
    found = []
    for block in re.split(r"\n\s*\n", page):
        if block.startswith("|"):
            found += block.splitlines()[2:]
        elif block.startswith("- "):
            found += re.split(r"\n(?=- )", block)
        elif not block.startswith("#"):
            found.append(block)
    return [each.strip() for each in found if each.strip()]


def test_every_statement_names_a_test_or_says_that_it_has_none() -> None:
    without = [
        each for each in statements(PAGE) if not (_NAMED.search(each) or _FILES.search(each) or _NONE.search(each))
    ]
    assert without == []
    assert len(statements(PAGE)) > 35


def test_all_tests_that_are_named_exist() -> None:
    code = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    known = set(re.findall(r"def (test_\w+)\(", code))
    assert set(_NAMED.findall(PAGE)) - known == set()
    assert [name for name in _FILES.findall(PAGE) if not (ROOT / name).exists()] == []


def test_a_statement_without_a_test_would_be_noticed() -> None:
    page = "# Head\n\nA claim. Test: `test_a`.\n\n- one, no test\n- two\n\n| a | b |\n| --- | --- |\n| x | `test_b` |\n"
    assert statements(page) == ["A claim. Test: `test_a`.", "- one, no test", "- two", "| x | `test_b` |"]


def test_ask_maps_values_where_release_refuses() -> None:
    schema = ct.Schema([ct.Attribute("sex", ["f", "m"])])
    rows, ledger = pa.table({"sex": ["f", "x", "m"]}), ct.Ledger.in_memory(schema=schema, budget=ct.Budget(epsilon=10))
    with pytest.raises(OutsideValueError):
        ct.release(rows, schema, epsilon=1, ledger=ledger)
    assert ledger.entries() == ()
    ct.open_notebook(ledger).ask(rows, ct.count(sex="f"), epsilon=1)
    assert len(ledger.entries()) == 1
