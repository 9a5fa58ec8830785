"""``crosstally collect``: from a schema to a release that nobody's row went into as it was."""

from __future__ import annotations

import base64
import json
import stat

import numpy as np
import pytest

import crosstally as ct
from cli_runs import ran_well, run
from crosstally.local.collector import RECORD

SCHEMA = {
    "attributes": [
        {"name": "plan", "values": ["free", "paid"]},
        {"name": "age", "edges": [0, 18, 65, 120]},
        {"name": "country", "values": ["FR", "DE"], "outside": "other"},
    ]
}


@pytest.fixture
def protocol(tmp_path):
    """A protocol file for 4,000 people."""
    schema = tmp_path / "usage.schema.json"
    schema.write_text(json.dumps(SCHEMA))
    path = tmp_path / "usage.protocol.json"
    ran_well("collect", "plan", schema, "--epsilon", 4, "--people", 4000, "--ways", 2, "-o", path, "--quiet")
    return path


def write_rows(path) -> None:
    """4,000 people: half pay, all who pay are 30, some ages are outside every bin."""
    free = (f"free,{150 if i % 8 == 0 else 10},{'DE' if i % 4 else 'PL'}" for i in range(0, 4000, 2))
    path.write_text("\n".join(["plan,age,country", *(line for each in free for line in (each, "paid,30,FR"))]) + "\n")


def test_the_whole_way(tmp_path, protocol) -> None:
    rows, reports, release = (tmp_path / name for name in ("rows.csv", "usage.reports", "usage.release.parquet"))
    write_rows(rows)
    ran_well("collect", "simulate", protocol, rows, "-o", reports)
    assert reports.stat().st_size == 4000 * 37
    with reports.open("ab") as file:
        file.write(reports.read_bytes()[:370] + b"rest")
    told = json.loads(ran_well("collect", "release", protocol, reports, "-o", release, "--json").out)
    assert told["reports"] == {
        "accepted": 4000,
        "a report with this id was counted already": 10,
        "a report must have 37 bytes": 1,
    }
    said = ran_well("collect", "release", protocol, reports, "-o", release, "--force").err
    assert "4,000 reports accepted." in said
    assert "10 reports refused: a report with this id was counted already." in said
    assert "1 report refused: a report must have 37 bytes." in said
    assert told["statement"]["model"] == "local"
    found = ct.open_release(release).marginal("plan", "age").values
    assert np.abs(found - [[1500, 0, 500], [0, 2000, 0]]).max() < 700
    assert "paid" in ran_well("table", release, "plan").out


def test_plan_tells_what_it_chose(tmp_path, protocol) -> None:
    schema = tmp_path / "usage.schema.json"
    for method in ("calm", "auto"):
        done = ran_well(
            "collect", "plan", schema, "--epsilon", 1, "--people", 4000, "--method", method, "-o", protocol, "--force",
            "--json",
        )  # fmt: skip
        told = json.loads(done.out)
        assert set(told) == {"protocol", "method", "groups", "minimum", "predicted_l2_error"}
        assert told["minimum"] == 1000
        low, high = told["predicted_l2_error"]
        assert 0 < low < high < 1
    assert "Saved" in ran_well(
        "collect", "plan", schema, "--epsilon", 1, "--people", 4000, "-o", protocol, "--force"
    ).err  # fmt: skip


def test_a_device_sends_the_same_bytes_again(tmp_path, protocol) -> None:
    store = tmp_path / "device.json"
    first = ran_well("collect", "report", protocol, '{"plan": "paid"}', "--store", store, "--cap", "4").out
    again = json.loads(
        ran_well(
            "collect", "report", protocol, '{"plan": "free", "age": 3}', "--store", store, "--cap", 4, "--json"
        ).out
    )
    assert first.strip() == again["report"]
    (tmp_path / "row.json").write_text('{"plan": "free"}')
    assert ran_well("collect", "report", protocol, tmp_path / "row.json", "--store", store, "--cap", 4).out == first
    assert len(base64.b64decode(first)) == 37
    assert "paid" not in first + store.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("collect", "report", "{p}", "[1]", "--store", "{t}/a.json", "--cap", "4"), "the row must be a JSON object"),
        (("collect", "report", "{p}", "{{", "--store", "{t}/a.json", "--cap", "4"), "the row must be a JSON object"),
        (
            ("collect", "report", "{p}", "{p}/x", "--store", "{t}/a.json", "--cap", "4"),
            "cannot read the row: Not a directory; give a",
        ),
        (
            ("collect", "report", "{p}", "{t}", "--store", "{t}/a.json", "--cap", "4"),
            "cannot read the row: Is a directory; give a JSON",
        ),
        (("collect", "report", "{p}", "{}", "--store", "{t}/a.json", "--cap", "1"), "would spend 4 of at most 1"),
        (("collect", "report", "{p}", "{}", "--store", "{t}/a.json", "--cap", "-1"), "--cap must be a number"),
        (("collect", "report", "{p}", "{}", "--store", "{t}/a.json"), "--cap"),
        (("collect", "report", "{p}", "{}", "--store", "{t}/a.json", "--cap", "x"), "--cap must be a number"),
        (("collect", "report", "{p}", "{}", "--store", "{t}/no/a.json", "--cap", "4"), "cannot write the store"),
        (("collect", "report", "{t}/none", "{}", "--store", "{t}/a.json", "--cap", "4"), "cannot read the protocol"),
        (("collect", "plan", "{t}/usage.schema.json", "--people", "5", "-o", "{t}/q"), "--epsilon"),
        (("collect", "release", "{p}", "{t}/none", "-o", "{t}/r"), "cannot read the reports"),
        (("collect", "release", "{p}", "{p}", "-o", "{t}/r"), "before 1,000 reports have come"),
        (("collect", "simulate", "{p}", "{t}/none.csv", "-o", "{t}/r"), "none.csv"),
    ],
)
def test_mistakes_end_in_one_line(tmp_path, protocol, arguments, message) -> None:
    given = [str(each).replace("{p}", str(protocol)).replace("{t}", str(tmp_path)) for each in arguments]
    ran = run(*given)
    assert ran.code == 2
    assert message in ran.err
    assert ran.err.count("\n") == 1


def test_a_device_is_not_made_to_tell_the_truth(tmp_path, protocol) -> None:
    """A size of 2.0 once passed for 2: the true value was sent, or the draw failed and could be tried again."""
    document, store = json.loads(protocol.read_text()), tmp_path / "device.json"
    hostile = tmp_path / "hostile.json"
    for oracle in document["oracles"]:
        oracle["sizes"] = [float(size) for size in oracle["sizes"]]
    hostile.write_text(json.dumps(document))
    for _ in range(3):
        ran = run("collect", "report", hostile, '{"plan": "paid"}', "--store", store, "--cap", "16")
        assert ran.code == 2
        assert "sizes must be a whole number" in ran.err
        assert ran.err.count("\n") == 1
        assert not store.exists()


def test_a_lost_report_and_a_damaged_store_end_in_one_line(tmp_path, protocol) -> None:
    name = json.loads(
        ran_well("collect", "report", protocol, "{}", "--store", tmp_path / "a", "--cap", 4, "--json").out
    )
    for texts, message in (
        ({name["protocol"]: "charged", "spent": "4"}, "was charged to this device and its report was lost"),
        ({"spent": "-100"}, "the store is damaged"),
        ({"spent": 0}, "the store is damaged"),
    ):
        (tmp_path / "b").write_text(json.dumps(texts))
        ran = run("collect", "report", protocol, "{}", "--store", tmp_path / "b", "--cap", "100")
        assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
        assert message in ran.err


def test_the_whole_way_with_tokens(tmp_path, protocol) -> None:
    """Tokens are handed out, a device uses one, rows use the rest; a report without a token is not counted."""
    schema, tokens, rows = tmp_path / "usage.schema.json", tmp_path / "usage.tokens", tmp_path / "rows.csv"
    ran_well(
        "collect", "plan", schema, "--epsilon", 4, "--people", 4000, "-o", protocol, "--force", "--tokens", "--quiet"
    )
    ran_well("collect", "tokens", protocol, "--number", 4001, "-o", tokens)
    assert stat.S_IMODE(tokens.stat().st_mode) == 0o600
    write_rows(rows)
    reports, release = tmp_path / "usage.reports", tmp_path / "usage.release.parquet"
    ran_well("collect", "simulate", protocol, rows, "-o", reports, "--tokens", tokens)
    (tmp_path / "token.txt").write_text(tokens.read_text().splitlines()[-1])
    device = ("collect", "report", protocol, "{}", "--store", tmp_path / "device.json", "--cap", 4)
    sent = base64.b64decode(ran_well(*device, "--token", tmp_path / "token.txt").out)
    forged = sent[:9] + bytes(16) + sent[25:]
    (tmp_path / "more.reports").write_bytes(sent + sent + forged)
    ending = (protocol, reports, tmp_path / "more.reports", "-o", release, "--tokens", tokens)
    told = json.loads(ran_well("collect", "release", *ending, "--json").out)
    assert told["reports"] == {
        "accepted": 4001,
        "a report with this id was counted already": 1,
        "the report holds a token that was not handed out": 1,
    }
    assert told["unusual_groups"] == []
    assert told["adversarial"]["table"] == ["plan", "age"]
    assert 40 < told["adversarial"]["people"] < 400
    said = ran_well("collect", "release", *ending, "--force", "--adversarial", "0.02").err
    assert "2% adversarial reports in groups given by tokens could have moved a cell of plan x age" in said
    for mistake, message in (
        (device, "this protocol needs a token of 32 hexadecimal digits, got none"),
        ((*device, "--token", "no"), "cannot read the token"),
        (("collect", "release", protocol, reports, "-o", release, "--force"), "name the file of those"),
        (("collect", "release", protocol, reports, "-o", release, "--force", "--tokens", rows), "no file of tokens"),
    ):
        assert message in run(*mistake).err


def test_a_crowded_group_is_shown(tmp_path, protocol) -> None:
    """500 reports more in one group: the sizes do not fit their shares."""
    design = ("--epsilon", 4, "--people", 4000, "--method", "residuals", "--force", "--quiet")
    ran_well("collect", "plan", tmp_path / "usage.schema.json", *design, "-o", protocol)
    reports = tmp_path / "usage.reports"
    write_rows(tmp_path / "rows.csv")
    ran_well("collect", "simulate", protocol, tmp_path / "rows.csv", "-o", reports)
    crowd = np.frombuffer(reports.read_bytes()[:37] * 500, RECORD).copy()
    crowd["id"] = np.frombuffer(np.random.default_rng(1).bytes(16 * 500), "V16")
    reports.write_bytes(reports.read_bytes() + crowd.tobytes())
    said = ran_well("collect", "release", protocol, reports, "-o", tmp_path / "r.parquet").err
    assert f"group {crowd['group'][0]} (" in said
    assert "adversaries may have chosen it" in said
    assert "1% adversarial reports in groups of their choice" in said
