"""``crosstally table``: a table of a release, for people or programs."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

import crosstally as ct
from crosstally.cli.options import Force, Output, Raw, ReleaseArgument, argument, check_output, flag, option
from crosstally.cli.output.encoding import deliver
from crosstally.cli.output.screen import UNBOUNDED, Screen, data, number_of, people, progress
from crosstally.errors import CrosstallyError, must_be_one_of
from crosstally.exports.formats import FORMATS, Written, written

if TYPE_CHECKING:
    from crosstally.analysis.regrouping import Regrouping
    from crosstally.answers.marginal import Marginal


EXAMPLES = (
    "crosstally table people.release.parquet sex age",
    'crosstally table people.release.parquet income --where "25 <= age < 65 and region != North"',
    'crosstally table people.release.parquet sex age --group "age: young = 16-24, 25-34; old = 65-74, 75 and over"',
    "crosstally table people.release.parquet sex age -o sex-age.xlsx --plot sex-age.svg",
    "crosstally table people.release.parquet sex age --whole",
    "crosstally table people.release.parquet region --measure income",
)


_SCREEN = "table"  # for people: the terminal's own format
_NAMES = [_SCREEN, *(name for name, each in FORMATS.items() if each.terminal)]
_BY_ENDING: dict[str, str] = {}
for _name in _NAMES[1:]:  # for each suffix the first format
    if "." not in FORMATS[_name].ending:
        _BY_ENDING.setdefault(f".{FORMATS[_name].ending}", _name)
_BY_ENDING |= {".txt": _SCREEN, "": _SCREEN}
"""The format by the suffix of a file, without --format."""

_FITTED_WAYS = 2
"""``release.integers`` is fitted by default to tables of up to this many attributes."""


def _known(name: str | None) -> str | None:
    if name is not None and name not in _NAMES:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(map(repr, _NAMES))}.")
    return name


Where = Annotated[
    str | None,
    option("CONDITION", 'Count only the rows that satisfy this condition: "25 <= age < 65 and region != North".'),
]
Groups = Annotated[
    list[str] | None,
    option(
        "GROUPS",
        'Put values together: "age: young = 16-24, 25-34; old = 75 and over". '
        'A level of a hierarchy: "town: canton". Again for each attribute.',
    ),
]
OfMeasure = Annotated[
    str | None, option("NAME", "Totals of this measure instead of counts; at the terminal its means too.")
]
Means = Annotated[bool, flag("Means of the measure instead of totals.", "--mean")]
FormatName = Annotated[
    str | None,
    option(
        "NAME",
        f"{', '.join(_NAMES[:-1])} or {_NAMES[-1]}; by default the ending of the file's name decides.",
        "--format",
        "-f",
        callback=_known,
    ),
]


def table(
    release: ReleaseArgument,
    attributes: Annotated[
        list[str] | None, argument("[ATTRIBUTE]", "The attributes of the table; none gives the number of rows.")
    ] = None,
    *,
    where: Where = None,
    group: Groups = None,
    format: FormatName = None,  # noqa: A002
    output: Output = None,
    measure: OfMeasure = None,
    mean: Means = False,
    plot: Annotated[Path | None, option("FILE", "Also draw a chart: .svg, .png or .json.")] = None,
    level: Annotated[float | None, option("SHARE", "The confidence level of the intervals; 0.95 by default.")] = None,
    method: Annotated[str | None, option("NAME", "How to reconstruct a table that was not measured.")] = None,
    whole: Annotated[
        bool,
        flag("Print whole numbers that agree across all tables of the release and with `synth --whole`.", "--whole"),
    ] = False,
    of: Annotated[str, option("WHAT", "What errors are about: table; population adds sampling error.")] = "table",
    design_effect: Annotated[float | None, option("D", "The design effect of the sample, for --of population.")] = None,
    fraction: Annotated[float, option("SHARE", "How much of the population was sampled.")] = 0.0,
    draws: Annotated[bool, flag("Write a column for each draw too, as CSV or Parquet.", "--draws")] = False,
    raw: Raw = False,
    force: Force = False,
) -> None:
    """Read any table of a release, with its errors. Free; no data is needed."""
    from crosstally.analysis.regrouping import regrouping_of_texts
    from crosstally.answers.marginal import USUAL_LEVEL, Of

    for path in (output, plot):
        if path is not None:
            check_output(path, force=force)
    wanted = format or _format_of(output)
    if wanted != _SCREEN and not FORMATS[wanted].is_text and output is None:
        raise CrosstallyError(f"{wanted} is not text and cannot go to the terminal: name a file with -o")
    if of not in get_args(Of):
        raise CrosstallyError(must_be_one_of("--of", get_args(Of), of))
    if draws and (wanted == _SCREEN or "draws" not in FORMATS[wanted].options):
        raise CrosstallyError("draws are written as csv or parquet: say --format csv")
    _check_whole(whole, {"--method": method is not None, "--of": of != "table", "--draws": draws})
    _check_measured(measure, wanted, mean=mean, others=whole or bool(group) or of != "table" or method is not None)
    with progress("computing the table and its intervals"):  # the first runs the bootstrap: seconds
        opened = ct.open_release(release)
        regrouping = regrouping_of_texts(group or (), opened.schema)
        regrouping.check(attributes or ())
        answer, *others = _answers(opened, attributes or [], measure, where, method, mean=mean)
        marginal = regrouping(answer)
        if of == "population":
            marginal = marginal.of_population(design_effect=design_effect, fraction=fraction)
        marginal.interval(USUAL_LEVEL if level is None else level)  # refuses an invalid level before a file is written
    if whole:
        marginal = _whole(opened, answer, regrouping)
    if plot is not None:
        from crosstally.charts import save

        save(marginal.plot(), plot)
    _write(wanted, Written(marginal, level, raw=raw, draws=draws, whole=opened.schema), output)
    if wanted == _SCREEN:
        _say_more(opened, marginal, others if output is None else (), level)


_OF_FIGURES = (_SCREEN, "csv", "json", "parquet", "xlsx")
"""The formats that name their numbers: the others hold counts."""


def _say_more(opened: ct.Release, shown: Marginal, others: Sequence[Marginal], level: float | None) -> None:
    """Print what stands below a table on the screen: means below totals, and units below a number of rows."""
    for each in others:
        _write(_SCREEN, Written(each, level, whole=opened.schema), None)
    for sentence in opened.unit_words if not shown.attributes and shown.quantity == "count" else ():
        people().say(sentence)


def _check_whole(whole: bool, others: Mapping[str, bool]) -> None:
    for name, given in others.items():
        if whole and given:
            raise CrosstallyError(f"--whole fits whole numbers to the release's usual answers: leave out {name}")


def _check_measured(measure: str | None, wanted: str, *, mean: bool, others: bool) -> None:
    """Raise for what has no meaning for totals and means."""
    if measure is None and mean:
        raise CrosstallyError("--mean is of a measure: name it with --measure")
    if measure is not None and wanted not in _OF_FIGURES:
        raise CrosstallyError(f"totals and means are written as {', '.join(_OF_FIGURES[1:])}, not as {wanted}")
    if measure is not None and others:
        raise CrosstallyError("--measure goes with --where and --level: leave out --whole, --group, --of and --method")


def _answers(
    opened: ct.Release, names: list[str], measure: str | None, where: str | None, method: str | None, *, mean: bool
) -> list[Marginal]:
    """What is asked; of a measure its totals, and then its means."""
    if measure is None:
        return [opened.marginal(*names, where=where, method=method)]
    asked = (opened.mean,) if mean else (opened.total, opened.mean)
    return [ask(measure, names, where=where) for ask in asked]


def _whole(release: ct.Release, answer: Marginal, regrouping: Regrouping) -> Marginal:
    """The answer in integers, regrouped; stderr reports their distance from the original."""
    from crosstally.query.question import Where

    with progress("fitting whole numbers to all tables of one and two attributes"):
        found = release.integers()
    apart = 100 * found.total_variation(answer)
    rows = number_of(found.total, "row", "rows")
    people().say(
        f"Whole numbers, of one table of {rows}: the total variation to the real-valued table is {apart:.2g}% of them."
    )
    restricted = Where.of(answer.where, release.schema).attributes if answer.where else ()
    if len({*answer.attributes, *restricted}) > _FITTED_WAYS:
        people().say("Only tables of one and two attributes were fitted; this one follows from them.")
    return found.beside(answer, regrouping)


def _format_of(output: Path | None) -> str:
    if output is None:
        return _SCREEN
    ending = output.suffix.lower()
    if ending not in _BY_ENDING:
        endings = ", ".join(each for each in _BY_ENDING if each)
        raise CrosstallyError(f"no format has the ending of {str(output)!r}: name it {endings}, or say --format")
    return _BY_ENDING[ending]


def _write(name: str, asked: Written, output: Path | None) -> None:
    """To a file, or to stdout."""
    from crosstally.cli.output.rendering import show

    if name != _SCREEN:
        deliver(written(name, asked), output, is_json=FORMATS[name].is_json)
    elif output is None:
        show(asked.table, data(), level=asked.level)
    else:
        shown = io.StringIO()
        show(asked.table, Screen(shown, width=UNBOUNDED), level=asked.level)
        deliver([shown.getvalue().encode()], output)
