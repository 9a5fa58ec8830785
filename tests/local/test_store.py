"""What a device keeps: charged before anything is drawn, one report for each protocol, one process at a time."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from fractions import Fraction

import pytest

from crosstally.local import client
from crosstally.local.client import reporting
from crosstally.local.protocol import design
from crosstally.schema import Attribute, Schema

SCHEMA = Schema((Attribute("a", ("x", "y")),))
PROTOCOL = design(SCHEMA, epsilon=1, people=5000, ways=1)
ROW = {"a": "x"}


class Broken(client.SecureSource):
    """A source that fails at one of its draws."""

    def __init__(self, at):
        self.left = at

    def step(self):
        self.left -= 1
        if self.left < 0:
            raise OSError("no randomness")

    def below(self, number):
        self.step()
        return super().below(number)

    def chance(self, probability):
        self.step()
        return super().chance(probability)

    def identity(self):
        self.step()
        return super().identity()


class Untouchable(dict):
    def get(self, *_):
        raise AssertionError("the row was looked at")

    __getitem__ = __iter__ = items = keys = get


def test_store_and_cap_must_be_given() -> None:
    with pytest.raises(TypeError, match="store"):
        PROTOCOL.report(ROW, cap="1")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="cap"):
        client.report(PROTOCOL.document, ROW, store={})  # type: ignore[call-arg]


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_failure_after_the_charge_spends_it_and_is_never_tried_again(tmp_path, at) -> None:
    path = tmp_path / "device.json"
    with pytest.raises(OSError, match="no randomness"):
        client.report(PROTOCOL.document, ROW, store=client.FileStore(path), cap="4", source=Broken(at))
    assert json.loads(path.read_text()) == {PROTOCOL.id: "charged", "spent": "1"}
    for _ in range(3):
        with pytest.raises(client.ReportLostError, match=f"{PROTOCOL.id} was charged .* its report was lost"):
            client.report(PROTOCOL.document, Untouchable(), store=client.FileStore(path), cap="4")
    assert json.loads(path.read_text())["spent"] == "1"


def test_the_charge_is_stored_before_the_row_is_looked_at() -> None:
    seen = []

    class Store(dict):
        def update(self, texts):  # type: ignore[override]
            seen.append(dict(texts))
            super().update(texts)

    class Row(dict):
        def get(self, key):  # type: ignore[override]
            seen.append(key)

    report = PROTOCOL.report(Row(), store=Store(), cap="1")
    assert seen[:2] == [{PROTOCOL.id: "charged", "spent": "1"}, "a"]
    assert [list(texts) for texts in seen[2:]] == [[PROTOCOL.id]]
    assert len(report) == 37


def test_a_store_that_cannot_be_charged_lets_nothing_be_drawn() -> None:
    class Full(dict):
        def update(self, _):  # type: ignore[override]
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        client.report(PROTOCOL.document, Untouchable(), store=Full(), cap="1", source=Broken(0))


def test_a_cap_must_be_an_amount_as_text_or_exact() -> None:
    for cap in ("-1", "x", "", "1e9", "1/0", "1_0", "٣", "9" * 500, -1, -(10**5000), True, 1.5, None):
        store: dict[str, str] = {}
        with pytest.raises(client.AmountError, match="cap must be a number of at least 0"):
            PROTOCOL.report(Untouchable(), store=store, cap=cap)
        assert store == {}
    for amount in ("1", "1.0", "3/2", 1, Fraction(3, 2), 10**5000):
        assert len(PROTOCOL.report(ROW, store={}, cap=amount)) == 37


@pytest.mark.parametrize("spent", ["-3", "-1/2", "", "x", "1e9", "nan", "9" * 500])
def test_a_store_with_an_amount_that_is_none_is_refused(tmp_path, spent) -> None:
    path = tmp_path / "device.json"
    path.write_text(json.dumps({"spent": spent}))
    for store in ({"spent": spent}, client.FileStore(path)):
        with pytest.raises(client.StoreError, match="damaged"):
            PROTOCOL.report(Untouchable(), store=store, cap="100")
    assert json.loads(path.read_text()) == {"spent": spent}


def test_a_store_that_is_malformed_is_refused(tmp_path) -> None:
    path = tmp_path / "device.json"
    for text in (b"", b"[]", b'"a"', b"null", b'{"spent": 1}', b'{"a": null}', b"{", b"[" * 100_000, b"\xff"):
        path.write_bytes(text)
        with pytest.raises(client.StoreError, match="damaged"):
            client.FileStore(path)


@pytest.mark.parametrize("entry", ["", "x", "AAAA", "=" * 52, "A" * 52, 7])
def test_an_entry_that_is_no_report_of_its_protocol_is_refused(entry) -> None:
    with pytest.raises(client.StoreError, match="is not a report"):
        PROTOCOL.report(Untouchable(), store={PROTOCOL.id: entry}, cap="1")


def test_a_store_reads_again_what_others_have_stored(tmp_path) -> None:
    """Both were opened before either had answered."""
    stores = [client.FileStore(tmp_path / "device.json") for _ in range(2)]
    assert len({PROTOCOL.report(ROW, store=store, cap="1") for store in stores}) == 1
    other = design(SCHEMA, epsilon=1, people=6000, ways=1)
    with pytest.raises(client.CapReachedError, match="2 of at most 1"):
        other.report(ROW, store=stores[0], cap="1")


def test_a_store_that_has_lost_entries_is_refused(tmp_path) -> None:
    store = client.FileStore(tmp_path / "device.json")
    store["a"] = "b"
    (tmp_path / "device.json").unlink()
    with pytest.raises(client.StoreError, match="lost entries"):
        PROTOCOL.report(Untouchable(), store=store, cap="1")
    with pytest.raises(client.StoreError, match="texts only"):
        client.FileStore(tmp_path / "other.json").update({"a": 1})


def test_a_link_to_a_store_is_the_same_store(tmp_path) -> None:
    (tmp_path / "link.json").symlink_to(tmp_path / "device.json")
    reports = {
        PROTOCOL.report(ROW, store=client.FileStore(tmp_path / n), cap="1") for n in ("device.json", "link.json")
    }
    assert len(reports) == 1
    assert (tmp_path / "link.json").is_symlink()


def test_nothing_is_left_beside_a_store(tmp_path) -> None:
    PROTOCOL.report(ROW, store=client.FileStore(tmp_path / "device.json"), cap="1")
    assert {path.name for path in tmp_path.iterdir()} <= {"device.json", "device.json.lock"}
    assert (tmp_path / "device.json").stat().st_mode & 0o077 == 0


def test_hostile_fractions_do_not_outgrow_the_store() -> None:
    """Amounts with more than 30 decimals are rounded up: never below what was spent, and always short."""
    store: dict[str, str] = {}
    spent = Fraction(0)
    for number in range(40):
        epsilon = Fraction(1, 10**80 + 2 * number + 1) + Fraction(1, 100)
        spent += epsilon
        reporting._charge(store, bytes([number]), epsilon, Fraction(1))
        assert 0 <= Fraction(store["spent"]) - spent < Fraction(100, 10**30)
        assert len(store["spent"]) < 70


# Races

RACER = """
import importlib.util, json, sys, pathlib
inside = [str(pathlib.Path(sys.argv[1]).parent)]
spec = importlib.util.spec_from_file_location("device", sys.argv[1], submodule_search_locations=inside)
client = sys.modules["device"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(client)
folder, own, locks = pathlib.Path(sys.argv[2]), sys.argv[3], sys.argv[4]
if locks == "without fcntl":
    client.store.fcntl = None
protocol = json.loads((folder / "protocol.json").read_text())
for turn in range(20):
    store = client.FileStore(folder / f"device{turn}.json")
    (folder / f"{turn}.{own}").touch()
    while not (folder / f"{turn}.{1 - int(own)}").exists():
        pass
    print(client.report(protocol, {"a": "x"}, store=store, cap="1").hex())
"""


@pytest.mark.parametrize("locks", ["with fcntl", "without fcntl"])
def test_two_processes_send_one_report(tmp_path, locks) -> None:
    """Twenty races on a fresh store each, by the client's folder alone."""
    PROTOCOL.save(tmp_path / "protocol.json")
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, client.__file__, str(tmp_path), str(own), locks],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for own in range(2)
    ]
    try:
        said = [racer.communicate(timeout=300) for racer in racers]
    finally:
        for racer in racers:
            racer.kill()
    assert [errors for _, errors in said] == ["", ""]
    first, second = (out.split() for out, _ in said)
    assert first == second
    assert len(set(first)) == 20


def test_threads_send_one_report() -> None:
    """Through a plain mapping that lets other threads run between reading and writing."""

    class Slow(dict):
        def get(self, key, default=None):
            found = super().get(key, default)
            pause.wait(0.01)
            return found

    pause, store, reports = threading.Event(), Slow(), []
    threads = [
        threading.Thread(target=lambda: reports.append(PROTOCOL.report(ROW, store=store, cap="1"))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(reports) == 8
    assert len(set(reports)) == 1


def test_a_lock_that_nobody_frees_is_named(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(client.store, "fcntl", None)
    monkeypatch.setattr(client.store, "_LOCK_SECONDS", 0)
    (tmp_path / "device.json.lock").touch()
    with pytest.raises(client.StoreError, match=r"in use; if no other process uses it, remove .*device\.json\.lock"):
        PROTOCOL.report(Untouchable(), store=client.FileStore(tmp_path / "device.json"), cap="1")
