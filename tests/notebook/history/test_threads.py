"""Small solves run on one thread, large ones on as many as there were."""

from __future__ import annotations

import pyarrow as pa
import pytest
from threadpoolctl import ThreadpoolController

import crosstally as ct
from crosstally.notebook.history import record
from crosstally.notebook.notebook import Notebook
from crosstally.privacy.ledger import Ledger
from crosstally.schema import Attribute, Schema
from crosstally.threads import MOST_UNKNOWNS, on_one_thread
from ledgers import EPSILON


def threads() -> set[int]:
    return {each["num_threads"] for each in ThreadpoolController().info() if each["user_api"] == "blas"}


def test_few_unknowns_have_one_thread_and_others_keep_theirs() -> None:
    import scipy.linalg  # noqa: F401 - loads its BLAS

    with ThreadpoolController().limit(limits=2, user_api="blas"):
        before = threads()
        assert before == {2}
        with on_one_thread(MOST_UNKNOWNS):
            assert threads() == {1}
        assert threads() == before
        with on_one_thread(MOST_UNKNOWNS + 1):
            assert threads() == before


def test_a_notebook_estimates_on_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = Schema([Attribute("sex", ["f", "m"])])
    seen = []
    plain = record.History._estimates

    def looked(self: record.History, queries: object) -> record.Estimates:
        seen.append(threads())
        return plain(self, queries)

    monkeypatch.setattr(record.History, "_estimates", looked)
    asked = Notebook(Ledger.in_memory(schema=schema, budget=EPSILON))
    asked.ask(pa.table({"sex": ["f", "m"]}), ct.count(sex="f"), epsilon=0.5)
    with ThreadpoolController().limit(limits=2, user_api="blas"):
        asked.estimate(ct.count(sex="f"))
    assert seen == [{1}, {1}]
