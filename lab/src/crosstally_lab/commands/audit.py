"""``crosstally audit``: test the package against its own privacy promise."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crosstally.cli import interrupts
from crosstally.cli.options import CheckFailedError, Json, Quiet
from crosstally.errors import CrosstallyError, did_you_mean
from crosstally.platform_files import write_text, writing

if TYPE_CHECKING:
    from crosstally_lab.audit import Finding


EXAMPLES = (
    "crosstally audit --quick",
    "crosstally audit -o audit.md",
    "crosstally audit --part sampled --only flat",
)
# What ``--quick`` draws: minutes in place of an hour. Bounds are weaker with fewer draws, and faults may hide.
_QUICK_DRAWS, _QUICK_RELEASES, _QUICK_PAIRS = 20_000, 100, 1
_ALL_PAIRS = 100  # more than there are kinds of neighbours
_EXACT, _SAMPLED, _WHOLE, _REPLAY = "exact", "sampled", "end-to-end", "replay"

Task = tuple[str, str, int]
"""A part, what of it, and how many draws, releases or pairs of neighbours."""


def audit(
    *,
    part: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="exact, sampled, end-to-end or replay; may be repeated. All by default."),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="Run only those cases, of all parts but exact, whose name contains this text."
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Use few draws, releases and neighbours: some minutes, with loose bounds."),
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
            metavar="N", min=1, max=64, help="The number of processes that share all parts but the exact one."
        ),
    ] = 1,
    kept: Annotated[
        Path | None,
        typer.Option(
            "--kept",
            metavar="FILE",
            help="Write each finding to this JSON file at once; a run that was interrupted continues from it.",
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Audit the privacy promise: exact losses, sampled bounds, neighbours released and replayed.

    All rows are generated.

    The exit code is 1 when a loss exceeds its claim, or when a full run ends with a bound that is too weak.
    """
    from crosstally.cli.output.screen import data, people, print_json, progress
    from crosstally_lab.audit import report_text
    from crosstally_lab.audit.end_to_end import RELEASES
    from crosstally_lab.audit.sampled import DRAWS

    tosses = draws or (_QUICK_DRAWS if quick else DRAWS)
    numbers = {_WHOLE: releases or (_QUICK_RELEASES if quick else RELEASES)}
    numbers[_REPLAY] = _QUICK_PAIRS if quick else _ALL_PAIRS
    tasks = [(name, subject, numbers.get(name, tosses)) for name, subject in _tasks(part or [], only)]
    done = {} if kept is None else _read_kept(kept)
    with progress("audited", quiet=quiet or json) as tell:
        for task, findings in _done([each for each in tasks if each not in done], jobs):
            done[task] = findings
            if kept is not None:
                _write_kept(kept, done)
            tell(len(done), len(tasks))
    found = [finding for task in tasks for finding in done[task]]
    screen = people(quiet=quiet or json)
    if json:
        print_json({"findings": [each.to_dict() for each in found]})
    elif output is None:
        for line in report_text(found).splitlines():
            data().put(line)
    if output is not None:
        with writing(output):
            write_text(output, report_text(found) + "\n")
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
    from crosstally_lab.audit import replay, sampled
    from crosstally_lab.audit.end_to_end import CONFIGURATIONS

    known = {_EXACT: [""], _SAMPLED: sampled.subjects(), _WHOLE: [each.subject for each in CONFIGURATIONS]}
    known[_REPLAY] = replay.subjects()
    for name in wanted:
        if name not in known:
            raise CrosstallyError(
                f"unknown part {name!r}{did_you_mean(name, list(known))}; known are {', '.join(known)}"
            )
    for name, subjects_of in known.items():
        if not wanted or name in wanted:
            yield from ((name, each) for each in subjects_of if only is None or not each or only in each)


def _read_kept(path: Path) -> dict[Task, list[Finding]]:
    """What an earlier run of the same code found: nothing where there is no such file, or the code was changed."""
    from crosstally.json_text import JsonError, read_json_file
    from crosstally_lab.audit import Finding

    if not path.exists():
        return {}
    try:
        kept = read_json_file(path)
        return {
            (str(part), str(subject), int(number)): [Finding.from_dict(each) for each in findings]
            for (part, subject, number), findings in kept["found"]
            if kept["code"] == _code_digest()
        }
    except (JsonError, OSError, KeyError, TypeError, ValueError):
        raise CrosstallyError(f"{str(path)!r} does not hold what an audit found: choose another file") from None


def _write_kept(path: Path, done: Mapping[Task, Sequence[Finding]]) -> None:
    from json import dumps

    pairs = [[task, [each.to_dict() for each in findings]] for task, findings in done.items()]
    with writing(path):
        write_text(path, dumps({"code": _code_digest(), "found": pairs}, indent=1) + "\n", private=True)


@cache
def _code_digest() -> str:
    """The SHA-256 of all modules, the laboratory's too: what was found of other code says nothing of this one."""
    import crosstally
    import crosstally_lab

    digest = sha256()
    for folder in (*crosstally.__path__, *crosstally_lab.__path__):
        for module in sorted(Path(folder).rglob("*.py")):
            digest.update(module.read_bytes())
    return digest.hexdigest()


def _done(tasks: Sequence[Task], jobs: int) -> Iterator[tuple[Task, list[Finding]]]:
    """Each task and its findings, as they end; several processes share the tasks where asked to."""
    if jobs == 1:
        yield from ((task, _do(task)) for task in tasks)
        return
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from multiprocessing import get_context

    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        started = {pool.submit(_do, task): task for task in tasks}
        for ended in as_completed(started):
            yield started[ended], ended.result()


def _do(task: Task) -> list[Finding]:
    from crosstally_lab.audit.end_to_end import audit_whole
    from crosstally_lab.audit.exact import audit_exact
    from crosstally_lab.audit.replay import audit_replay
    from crosstally_lab.audit.sampled import audit_sampled

    part, subject, number = task
    if part == _EXACT:
        return list(audit_exact())
    if part == _REPLAY:
        return [audit_replay(subject, number)]
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
