"""``crosstally audit``: test the package against its own privacy promise."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crosstally.cli import interrupts
from crosstally.cli.checks import CheckFailedError
from crosstally.cli.options import Json, Quiet
from crosstally.errors import CrosstallyError, did_you_mean

if TYPE_CHECKING:
    from crosstally.audit import Finding

__all__ = ["EXAMPLES", "audit"]

EXAMPLES = (
    "crosstally audit --quick",
    "crosstally audit -o audit.md",
    "crosstally audit --part sampled --only flat",
)
# What ``--quick`` draws: minutes in place of an hour. Bounds are weaker with fewer draws, and faults may hide.
_QUICK_DRAWS, _QUICK_RELEASES = 20_000, 100
_EXACT, _SAMPLED, _WHOLE = "exact", "sampled", "end-to-end"

Task = tuple[str, str, int]
"""A part, what of it, and how many draws or releases."""


def audit(
    *,
    part: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="exact, sampled or end-to-end; may be repeated. All by default."),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Run only those sampled and end-to-end cases whose name contains this text."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Use few draws and releases: about two minutes, with loose bounds.")
    ] = False,
    draws: Annotated[
        int | None,
        typer.Option(metavar="N", min=100, help="Draws in each game, counting both tables; 400,000 by default."),
    ] = None,
    releases: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=10, help="Releases of each configuration, counting both tables; 20,000 by default."
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the tables of the report as Markdown.")
    ] = None,
    jobs: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, max=64, help="The number of processes that share the sampled and end-to-end parts."
        ),
    ] = 1,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Audit the privacy promise: exact losses, sampled bounds, releases of neighbours. Uses made-up rows only.

    The exit code is 1 when a loss exceeds its claim, or when a full run ends with a bound that is too weak.
    """
    from crosstally.audit import report_text
    from crosstally.audit.end_to_end import RELEASES
    from crosstally.audit.sampled import DRAWS
    from crosstally.cli.output.screen import data, people, print_json, progress

    tosses = draws or (_QUICK_DRAWS if quick else DRAWS)
    number = releases or (_QUICK_RELEASES if quick else RELEASES)
    tasks = [(name, subject, number if name == _WHOLE else tosses) for name, subject in _tasks(part or [], only)]
    found: list[Finding] = []
    with progress("audited", quiet=quiet or json) as tell:
        for done, findings in enumerate(_done(tasks, jobs), 1):
            found += findings
            tell(done, len(tasks))
    screen = people(quiet=quiet or json)
    if json:
        print_json({"findings": [each.to_dict() for each in found]})
    elif output is None:
        for line in report_text(found).splitlines():
            data().put(line)
    if output is not None:
        output.write_text(report_text(found) + "\n", encoding="utf-8")
    wrong = [each for each in found if not each.holds]
    loose = [each for each in found if not each.sharp]
    if wrong:
        raise CheckFailedError(f"{len(wrong)} of {len(found)} findings are above their claim: {_names(wrong)}")
    if loose:
        raise CheckFailedError(f"{len(loose)} of {len(found)} bounds say too little: {_names(loose)}; draw again")
    screen.say(f"All {len(found)} findings are within their claims.")


def _names(findings: Sequence[Finding]) -> str:
    shown = ", ".join(repr(each.subject) for each in findings[:3])
    return f"{shown} and {len(findings) - 3} more" if len(findings) > 3 else shown


def _tasks(wanted: Sequence[str], only: str | None) -> Iterator[tuple[str, str]]:
    """The tasks: each is a part of the audit and one case of it."""
    from crosstally.audit.end_to_end import CONFIGURATIONS
    from crosstally.audit.sampled import subjects

    known = {_EXACT: [""], _SAMPLED: subjects(), _WHOLE: [each.subject for each in CONFIGURATIONS]}
    for name in wanted:
        if name not in known:
            raise CrosstallyError(
                f"unknown part {name!r}{did_you_mean(name, list(known))}; known are {', '.join(known)}"
            )
    for name, subjects_of in known.items():
        if not wanted or name in wanted:
            yield from ((name, each) for each in subjects_of if only is None or not each or only in each)


def _done(tasks: Sequence[Task], jobs: int) -> Iterator[list[Finding]]:
    """The findings of each task, in order; several processes share the tasks where asked to."""
    if jobs == 1:
        yield from map(_do, tasks)
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(_do, tasks)


def _do(task: Task) -> list[Finding]:
    from crosstally.audit.end_to_end import audit_whole
    from crosstally.audit.exact import audit_exact
    from crosstally.audit.sampled import audit_sampled

    part, subject, number = task
    if part == _EXACT:
        return list(audit_exact())
    return [audit_sampled(subject, number) if part == _SAMPLED else audit_whole(subject, _run_command, number)]


def _run_command(arguments: Sequence[str]) -> tuple[int, str, str]:
    """The exit code and output of a command run in this process. An interrupt ends the whole audit."""
    from crosstally.cli.app import main

    interrupts.check()
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    interrupts.check()
    return code, out.getvalue(), err.getvalue()
