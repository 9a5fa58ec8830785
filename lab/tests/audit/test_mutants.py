"""The fast part of ``make audit``: every mutant is found by its part, and the probes hold without them."""

import signal
from collections.abc import Iterator
from fractions import Fraction

import pytest

from audit_mutants import mutants
from audit_mutants.mutants import MUTANTS, Mutant
from crosstally.cli import main
from crosstally.errors import CrosstallyError
from crosstally.privacy import measure
from crosstally_lab.audit import cases, exact
from crosstally_lab.audit.findings import EXACT, SAMPLED, Finding, report_text
from crosstally_lab.commands import audit as command


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_found_by_the_part_it_names(mutant: Mutant, monkeypatch) -> None:
    """Fewer draws than in ``make audit``; the false-alarm rate of a rule is below 2e-5 in both."""
    monkeypatch.setattr(mutants, "DRAWS", 30_000)
    if mutant.part != SAMPLED:  # that games hold without a mutant is seen in test_guessing
        assert mutant.probe().holds
    mutant.apply(monkeypatch.setattr)
    found = mutant.probe()
    assert (found.part, found.holds) == (mutant.part, False)


def test_there_are_the_twelve_mutants() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == 12
    assert {mutant.part for mutant in MUTANTS} == {"exact", "sampled", "end to end"}


def test_questions_counting_oracles_and_protocols_hold_exactly(monkeypatch) -> None:
    """All of the exact part but the plans of every strategy, whose cost the contract of strategies checks."""
    monkeypatch.setattr(exact, "EPSILONS", (Fraction(1),))
    found = [
        *map(exact.plan_finding, exact.question_cases()),
        *exact.row_findings(),
        *exact.oracle_findings(),
        *exact.protocol_findings(),
    ]
    assert len(found) > 60
    assert [each for each in found if not each.holds] == []
    assert max(each.exact for each in found if each.claimed == 1) == 1


@pytest.mark.parametrize("strategy", ["mwem of 2 rounds", "adaptive of 2 rounds", "two-stage"])
def test_stages_stay_within_their_shares(strategy) -> None:
    for budget in cases.BUDGETS.values():
        plan = cases.STRATEGIES[strategy].plan(cases.SCHEMAS["rows"], None, budget, neighbours="replace")
        assert len(cases.stages_of(plan)) > 1
        found = exact.plan_finding(cases.PlanCase(strategy, plan))
        assert found.holds
        assert found.exact > 0.5 * found.claimed


# The command


def test_the_command_prints_a_table_and_ends_with_0(capsys) -> None:
    code = main(["audit", "--part", "sampled", "--only", "residual-bit, many", "--draws", "1000", "--quiet"])
    out = capsys.readouterr().out
    assert code == 0
    assert out.splitlines()[2] == "| what | unit | claimed | exact | bound | of exact | verdict |"
    assert "residual-bit, many at once | ε | 1.0000 | 1.0000 |" in out


def test_the_command_ends_with_1_where_a_claim_is_broken_or_a_bound_says_too_little(monkeypatch, capsys) -> None:
    broken = Finding(SAMPLED, "flat", claimed=1.0, exact=1.0, bound=1.01)
    loose = Finding(SAMPLED, "flat", claimed=1.0, exact=1.0, bound=0.5, share=0.95)
    for finding, words in ((broken, "1 of 1 findings are above their claim: 'flat'"), (loose, "1 of 1 bounds say too")):
        monkeypatch.setattr(command, "_do", lambda _, finding=finding: [finding])
        assert main(["audit", "--part", "exact"]) == 1
        assert words in capsys.readouterr().err


def test_an_audit_that_was_interrupted_goes_on_from_what_was_kept(monkeypatch, tmp_path, capsys) -> None:
    audited = []

    def interrupted(task):
        audited.append(task[1])
        if task[1] == "flat, 1 table":
            return [Finding(SAMPLED, task[1], claimed=1.0, exact=1.0, bound=0.98, share=0.95, cases=task[2])]
        raise CrosstallyError("the machine went down")

    monkeypatch.setattr(command, "_do", interrupted)
    arguments = ["audit", "--part", "sampled", "--only", "flat, ", "--draws", "1000", "--kept", str(tmp_path / "kept")]
    assert main(arguments) == 2
    assert audited == ["flat, 1 table", "flat, replace"]
    capsys.readouterr()
    again = []

    def found(task):
        again.append(task[1])
        return [Finding(SAMPLED, task[1])]

    monkeypatch.setattr(command, "_do", found)
    assert main(arguments) == 0
    assert "flat, 1 table" not in again
    assert again[0] == "flat, replace"
    assert "| flat, 1 table | ε | 1.0000 | 1.0000 | 0.9800 | 0.980 | holds |" in capsys.readouterr().out
    assert main([*arguments, "--draws", "2000"]) == 0  # a finding of other numbers of draws is another
    assert "flat, 1 table" in again
    again.clear()
    monkeypatch.setattr(command, "_code_digest", lambda: "other code")
    assert main(arguments) == 0
    assert again[0] == "flat, 1 table"
    (tmp_path / "kept").write_text("[1]")
    capsys.readouterr()
    assert main(arguments) == 2
    assert "does not hold what an audit found" in capsys.readouterr().err


def test_an_unknown_part_is_refused(capsys) -> None:
    assert main(["audit", "--part", "exakt"]) == 2
    assert "did you mean 'exact'?" in capsys.readouterr().err


def test_verdicts() -> None:
    above = Finding(EXACT, "a", claimed=1.0, exact=1.1)
    words = Finding(EXACT, "b", claimed=1.0, exact=0.5, broken="the ledger forgot")
    text = report_text([above, words, Finding(EXACT, "c", claimed=1.0, exact=1.0, cases=1200)])
    assert "| a | ε | 1.0000 | 1.1000 | 1 | BROKEN: above the claim |" in text
    assert "| b | ε | 1.0000 | 0.5000 | 1 | BROKEN: the ledger forgot |" in text
    assert "| c | ε | 1.0000 | 1.0000 | 1,200 | holds |" in text


@pytest.fixture
def own_interrupts() -> Iterator[None]:
    """Python's own handler, which a command replaces by its own: a Spark session in this process leaves another one."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("own_interrupts")
@pytest.mark.parametrize("step", ["_exact_answers", "_draw"])
def test_an_interrupt_ends_the_audit_and_not_one_release_alone(step, monkeypatch, capsys) -> None:
    """Before the charge it stops the release, after it the release is finished; the audit ends both times."""
    work, calls = getattr(measure, step), []

    def interrupted(*given):
        calls.append(step)
        signal.raise_signal(signal.SIGINT)
        return work(*given)

    monkeypatch.setattr(measure, step, interrupted)
    assert main(["audit", "--part", "end-to-end", "--only", "flat", "--releases", "10"]) == 130
    assert len(calls) == 1
    assert "stopped" in capsys.readouterr().err
