"""The threat model: every statement in it names tests that are there, or says that it has none."""

from __future__ import annotations

import math
import pickle
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import crosstally as ct
from crosstally.budget import Currency, Noise, Sensitivity
from crosstally.errors import OutsideValueError
from crosstally.measurements import ExactTable

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
    files = (path for folder in ("tests", "lab/tests") for path in (ROOT / folder).rglob("test_*.py"))
    code = "\n".join(path.read_text(encoding="utf-8") for path in files)
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


def test_exact_tables_print_without_their_counts_and_cannot_be_pickled() -> None:
    schema = ct.Schema([ct.Attribute("sex", ["f", "m"])])
    exact = ExactTable(schema, np.array([7_654_321, 1_234_567]))
    for shown in (repr(exact), str(exact), f"{exact}", repr([exact])):
        assert "7654321" not in shown.replace(",", "").replace("_", "")
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(ct.CrosstallyError, match="confidential"):
            pickle.dumps(exact, protocol)


@pytest.mark.parametrize("amount", ["1", "0.1", "1/3", "2/7", "1e-9", "123.456"])
@pytest.mark.parametrize("currency", ["epsilon", "rho"])
def test_noise_scales_are_rounded_up(amount: str, currency: Currency) -> None:
    """What the noise costs at its scale, a double, is not above the amount; at the double below it is."""
    budget, moved = Fraction(amount), Sensitivity(3, 7)

    def cost(scale: float) -> Fraction:
        return moved.l1 / Fraction(scale) if currency == "epsilon" else moved.l2_squared / (2 * Fraction(scale) ** 2)

    scale = Noise.affordable(moved, budget, currency=currency).scale
    assert cost(scale) <= budget < cost(math.nextafter(scale, 0))


def test_one_feature_of_opendp_is_switched_on() -> None:
    both = (path for root in ("src", "lab/src") for path in (ROOT / root).rglob("*.py"))
    sources = (path for path in both if path.parent.name != "elsewhere")  # for another Python
    code = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    assert re.findall(r"enable_features\((.*)\)", code) == ['"contrib"']


def test_no_log_of_a_site_is_kept() -> None:
    """All sites are served by one function."""
    import uvicorn

    code = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    assert code.count("uvicorn.Config(") == 1
    source = (ROOT / "src/crosstally/browser/common/site_server.py").read_text(encoding="utf-8")
    assert "access_log=False" in source.split("uvicorn.Config(")[1].split("\n    )")[0]
    assert uvicorn.Config(lambda: None).access_log  # by default there is one: the option matters
