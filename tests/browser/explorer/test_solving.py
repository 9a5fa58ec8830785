"""Work: what it costs, who waits for it, what is kept of it, and how it is ended."""

import hashlib
import operator
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Semaphore
from typing import Any

import pytest

import released
from crosstally.browser.explorer import solver as solving
from crosstally.browser.explorer.answering import ReleaseFile, TooDearError, metered, opened, price, solved
from crosstally.browser.explorer.api import Stream
from crosstally.browser.explorer.solver import BusyError, EndedError, Solver, TooMuchError, UnforeseenError, Worker
from crosstally.errors import QueryError, ReleaseError
from crosstally.query.question import Where
from crosstally.releases import Release
from crosstally.schema import Attribute, Schema
from web_clients import client_of, measured, serving

PAIRS = [("a", "b"), ("a", "c"), ("b", "c"), ("d",)]


def here(work: Callable[[], Any]) -> Any:
    return work()


def sized(values: int, names: str = "abcd", tables: list[tuple[str, ...]] | None = None) -> Release:
    schema = Schema([Attribute(name, [f"{name}{i}" for i in range(values)]) for name in names])
    return measured(schema, [(), *(PAIRS if tables is None else tables)])


# What it costs


def test_what_tables_cost() -> None:
    """Twenty values: 20, 400 and 8,000 cells; a, b and c were measured in pairs, d by itself."""
    release = sized(20)
    assert price(release, [("a",)]) == 100  # at least
    assert price(release, [("a", "b")]) == 400
    assert price(release, [("a", "b", "c")]) == 25 * 8_000  # modelled
    assert price(release, [("a", "b", "d")]) == 25 * 8_000
    assert price(sized(20, tables=[("a", "b")]), [("a", "b", "d")]) == 8_000  # nobody measured d: bounds alone
    assert price(release, [("a",), ("b", "a")]) == 500
    assert price(release, [("a",)], Where.of("b = b1 and c = c1", release.schema)) == 25 * 8_000
    assert price(release.refit(nonnegative="none"), [("a", "b", "c")]) == 8_000
    assert price(release, [("a", "b"), ()], labels=True) == 400 + 100 + 3 * 2 * (400 + 1)  # as rows of two keys


def test_a_statement_pays_for_all_its_tables_together() -> None:
    release = sized(40)  # 64,000 cells of three, modelled: 1,600,000, and 576,000 for their labels
    tables = metered(release, 5_000_000 - 2_176_001)
    tables([("c", "b", "a")], None)
    with pytest.raises(TooDearError, match="costs 5,000,099, at most 5,000,000 is answered"):
        tables([()], None)


def test_what_costs_too_much_is_refused_in_every_form() -> None:
    """Six attributes of eight values whose pairs were measured: 262,144 cells, 25 each."""
    names = "abcdef"
    client = client_of(serving(sized(8, names, [(a, b) for a in names for b in names if a < b])))
    codes = "&".join(f"valueCodes[{name}]=*" for name in names)
    view = "&".join(f"rows={name}" for name in names) + "&top=3"
    for path in (f"api/v2/tables/people/data?{codes}", f"download/csv?{view}", f"chart.svg?{view}", f"table?{view}"):
        found = client.get(f"/{path}")
        assert (found.status_code, found.json()["cost"]) == (413, 6_553_600), path
    assert client.get(f"/table?{view}&show=row").json()["cost"] == 2 * 6_553_600
    for path in (f"api/v2/tables/people/data?{codes}", f"table?{view}"):
        found = client.get(f"/{path}")
        assert found.json()["detail"].startswith("this question costs 6,553,600, at most 5,000,000 is answered")
    everything = client.get(f"/api/v2/sql?statement=SELECT count(*) FROM p GROUP BY {','.join(names)}")
    assert (everything.status_code, everything.json()["cost"]) == (413, 6_553_600 + 3 * 6 * 262_144)
    assert client.get("/api/v2/config").json()["maxCost"] == 5_000_000


# Who waits for it


def test_two_at_once_and_the_rest_waits_and_the_same_work_is_done_once() -> None:
    solver, begun, go = Solver(seconds=5.0), [], threading.Event()
    running, most = 0, 0
    lock = threading.Lock()

    def work(name: str) -> str:
        nonlocal running, most
        with lock:
            begun.append(name)
            running += 1
            most = max(most, running)
        go.wait(5)
        with lock:
            running -= 1
        return name

    asked = ["a", "b", "c", "a"]
    threads = [threading.Thread(target=lambda n=n: solver.run(n, lambda: work(n), len)) for n in asked]
    for thread in threads:
        thread.start()
    go.set()
    for thread in threads:
        thread.join()
    assert (sorted(begun), most <= 2) == (["a", "b", "c"], True)


def test_what_was_begun_is_there_when_asked_again() -> None:
    solver, go = Solver(seconds=0.02), threading.Event()
    with pytest.raises(BusyError):
        solver.run("key", lambda: go.wait(5) and "done", len)
    go.set()
    solver.seconds = 5.0
    assert solver.run("key", lambda: "done again", len) == "done"


def test_who_leaves_takes_the_answer_from_nobody() -> None:
    """Two clients wait for work that has not begun; one of them leaves."""
    solver, go = Solver({"tables": [here]}, seconds=10.0), threading.Event()
    found: list[str] = []
    threads = [threading.Thread(target=solver.run, args=("first", lambda: go.wait(10), lambda _: 0))]
    threads.append(threading.Thread(target=lambda: found.append(solver.run("same", lambda: "done", len))))
    for thread in threads:
        thread.start()
        time.sleep(0.05)
    solver.seconds = 0.02
    with pytest.raises(BusyError):
        solver.run("same", lambda: "again", len)
    go.set()
    for thread in threads:
        thread.join()
    assert found == ["done"]


def test_what_nobody_waits_for_any_longer_is_not_begun() -> None:
    solver, go, begun = Solver({"tables": [here]}, seconds=0.02), threading.Event(), []
    for key, work in (("first", lambda: go.wait(10)), ("second", lambda: begun.append("second"))):
        with pytest.raises(BusyError):
            solver.run(key, work, lambda _: 0)
    go.set()
    solver.seconds = 10.0
    assert solver.run("third", lambda: "third", len) == "third"
    assert begun == []


def test_too_many_that_wait_are_told_so_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solving, "WAITING", 0)
    with pytest.raises(BusyError):
        Solver().run("key", lambda: "done", len)


def test_one_kind_keeps_no_other_waiting() -> None:
    solver, go = Solver(seconds=0.02), threading.Event()
    for place, number in solving.PLACES.items():
        for own in range(number):
            with pytest.raises(BusyError):
                solver.run((place, own), lambda: go.wait(10), lambda _: 0, place)
        others = [
            other for other in solving.PLACES if list(solving.PLACES).index(other) > list(solving.PLACES).index(place)
        ]
        solver.seconds = 10.0
        assert [solver.run((place, other), lambda: "done", len, other) for other in others] == ["done"] * len(others)
        solver.seconds = 0.02
    go.set()


# How it is ended


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    made = Worker(seconds=30.0)
    made(partial(int, "1"))
    yield made
    made.close()


def test_what_takes_too_long_ends_with_its_process_and_the_next_is_done(worker: Worker) -> None:
    worker.seconds = 0.3
    with pytest.raises(EndedError):
        worker(partial(time.sleep, 60))
    worker.seconds = 30.0
    assert worker(partial(int, "2")) == 2


def test_what_takes_too_much_memory_ends(worker: Worker) -> None:
    worker.memory = 400 * 2**20
    with pytest.raises(EndedError):
        worker(partial(operator.mul, b"x", 800 * 2**20))
    worker.memory = 2**31
    assert worker(partial(int, "3")) == 3


def test_errors_come_back_and_those_that_nobody_foresaw_without_their_text(
    worker: Worker, capfd: pytest.CaptureFixture[str]
) -> None:
    schema = Schema([Attribute("a", ["x", "y"])])
    with pytest.raises(QueryError, match="no attribute|unknown|has no"):
        worker(partial(schema.check, ["b"]))
    with pytest.raises(UnforeseenError) as caught:
        worker(partial(int, "12345 people"))
    assert "12345" not in f"{caught.value!r}{capfd.readouterr().err}"


def test_a_process_that_is_closed_begins_nothing_more() -> None:
    closed = Worker()

    def wait() -> None:
        with pytest.raises(EndedError):
            closed(partial(time.sleep, 60))

    waits = threading.Thread(target=wait)
    waits.start()
    closed.start()
    time.sleep(0.3)
    closed.close()
    waits.join(5)
    assert not waits.is_alive()
    with pytest.raises(EndedError):
        closed(partial(int, "4"))


def test_work_that_was_ended_is_refused_and_not_begun_again() -> None:
    asked: list[str] = []

    def ends(work: object) -> None:
        asked.append("again")
        raise EndedError

    solver = Solver({"tables": [ends]})
    for _ in range(2):
        with pytest.raises(TooMuchError):
            solver.run("key", lambda: "done", len)
    assert asked == ["again"]
    release = sized(2)
    refused = client_of(serving(release, solver=solver)).get("/api/v2/tables/people/data?valueCodes[a]=*")
    assert (refused.status_code, "60 seconds or 2 GB" in refused.json()["detail"]) == (413, True)


# What is computed


def test_a_table_in_another_process_is_that_of_the_release(worker: Worker) -> None:
    release = sized(3)
    for within in (None, ("a",)):
        here = release.marginal("a", "b") if within is None else release.marginal("a", "b").shares("a")
        _, there = worker(partial(solved, release, ("a", "b"), "", 0.9, within=within))
        assert there.values.tolist() == here.values.tolist()
        for level in (0.9, 0.95):  # the one asked for, and that of signs of reliability
            assert [end.tolist() for end in there.interval(level)] == [end.tolist() for end in here.interval(level)]
        assert there.std_error.tolist() == here.std_error.tolist()
        with pytest.raises(KeyError):
            there.interval(0.8)


def test_a_file_that_changed_is_not_opened(tmp_path: Path) -> None:
    path = released.saved(tmp_path)
    source = ReleaseFile(path, hashlib.sha256(path.read_bytes()).hexdigest())
    assert opened(source).schema == released.views().schema
    for other in (replace(source, digest="0" * 64), replace(source, path=path.with_name("gone"))):
        with pytest.raises(ReleaseError, match=r"changed while it is served"):
            opened(other)
    changed = serving(released.views(), path=path)  # of another digest
    refused = client_of(changed).get("/api/v2/tables/people/data?valueCodes[sex]=*")
    assert (refused.status_code, "start it again" in refused.json()["detail"]) == (503, True)


def test_few_large_files_are_sent_at_once() -> None:
    places = Semaphore(1)
    first = Stream(iter([b"a", b"b"]), places)
    assert (first.begins, Stream(iter([]), places).begins, next(first)) == (True, False, b"a")
    del first  # its client left
    last = Stream(iter([b"c"]), places)
    assert (last.begins, list(last)) == (True, [b"c"])
