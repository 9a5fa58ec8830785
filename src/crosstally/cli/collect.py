"""``crosstally collect``: the local model, where nobody holds the rows: plan, tokens, report, simulate, release."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import crosstally as ct
from crosstally.cli import interrupts
from crosstally.cli.options import Epsilon, Force, Json, Quiet, argument, check_output, flag, option
from crosstally.cli.output.screen import data, number_of, print_json, progress, progress_of_reading
from crosstally.cli.output.screen import people as _people  # a collection has people of its own
from crosstally.cli.source_options import ReadingOptions
from crosstally.errors import BudgetError, CrosstallyError
from crosstally.json_text import read_json
from crosstally.platform_files import write_bytes, writing
from crosstally.schema import Schema

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_ROW = """'{"country": "FR", "plan": "paid"}'"""
EXAMPLES = {
    "plan": ("crosstally collect plan usage.schema.json --epsilon 1 --people 1000000 --ways 3 -o usage.protocol.json",),
    "tokens": ("crosstally collect tokens usage.protocol.json --number 1000000 -o usage.tokens",),
    "report": (f"crosstally collect report usage.protocol.json {_ROW} --store device.json --cap 4",),
    "simulate": ("crosstally collect simulate usage.protocol.json rows.csv -o usage.reports",),
    "release": ("crosstally collect release usage.protocol.json usage.reports -o usage.release.parquet",),
}

ProtocolFile = Annotated[Path, argument("PROTOCOL", "A protocol file.")]
TokenFiles = Annotated[
    list[Path] | None, option("FILE", "The tokens that were handed out, if the protocol uses them; may be repeated.")
]
OutputFile = Annotated[Path, option("FILE", "The file to write.", "--output", "-o")]


def plan(
    schema: Annotated[Path, argument("SCHEMA", "The reviewed schema of a person's row.")],
    *,
    people: Annotated[int, option("N", "About how many people will report.", min=1)],
    epsilon: Epsilon = None,
    ways: Annotated[int, option("K", "The number of attributes of the tables that matter most.", min=1)] = 2,
    method: Annotated[
        str, option("NAME", "residuals, views, calm, fourier, ...; by default the one with the least predicted error.")
    ] = "auto",
    minimum: Annotated[int | None, option("N", "Release nothing from fewer reports than this.", min=1)] = None,
    tokens: Annotated[
        bool, flag("Assign groups by one-time tokens, so that liars cannot choose their group.", "--tokens")
    ] = False,
    output: OutputFile,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Design a collection: a public protocol that says what every device is asked. Free: no data is read."""
    if epsilon is None:
        raise BudgetError("say how much privacy a report may spend: --epsilon")
    read = Schema.load(schema)
    check_output(output, force=force)
    with progress("planning", quiet=quiet or json):
        made = ct.local.design(
            read, epsilon=epsilon, people=people, ways=ways, method=method, minimum=minimum, tokens=tokens
        )
        low, high = made.predicted_error
    with writing(output):
        made.save(output)
    if json:
        facts = {"protocol": made.id, "method": made.method, "groups": len(made.groups), "minimum": made.minimum}
        print_json({**facts, "predicted_l2_error": [low, high]})
        return
    screen = _people(quiet=quiet)
    screen.say(f"Saved {output}: {made.method}, {len(made.groups):,} groups, at least {made.minimum:,} reports.")
    screen.say(
        f"A table over {ways} attributes is expected to be off by {100 * low:.2g}% to {100 * high:.2g}% of all people "
        "(L2), the more the stronger attributes depend on each other."
    )
    if made.tokens:
        screen.put(
            f"Next: crosstally collect tokens {output} --number {people} -o FILE, and hand out one to each person"
        )
    else:
        screen.put(f"Next, on each device: crosstally collect report {output} ROW --store FILE --cap NUMBER")


def tokens(
    protocol: ProtocolFile,
    *,
    number: Annotated[int, option("N", "The number of tokens: one for each person.", min=1)],
    output: OutputFile,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Make one-time tokens to hand out, one to each person; the file is secret and stays with the collector."""
    read = ct.local.Protocol.load(protocol)
    check_output(output, force=force)
    made = ct.local.Tokens.issue(read, number)
    with writing(output):
        made.save(output)
    screen = _people(quiet=quiet)
    screen.say(f"Saved {output}: {number:,} tokens, one in a line. Each counts once: whoever has two counts twice.")
    screen.put(
        f"Next, on each device: crosstally collect report {protocol} ROW --token TOKEN --store FILE --cap NUMBER"
    )


def _read_tokens(protocol: ct.local.Protocol, paths: list[Path] | None) -> ct.local.Tokens | None:
    """The tokens of all files together."""
    found: ct.local.Tokens | None = None
    for path in paths or ():
        held = ct.local.Tokens.load(path, protocol)
        found = held if found is None else found.joined(held)
    if protocol.tokens and found is None:
        raise CrosstallyError("this protocol has tokens: name the file of those that were handed out (--tokens)")
    return found


def report(
    protocol: ProtocolFile,
    row: Annotated[str, argument("ROW", "The person's values: a JSON object, or a file that holds one.")],
    *,
    store: Annotated[
        Path, option("FILE", "The file in which this device keeps its reports, so that each is drawn only once.")
    ],
    cap: Annotated[str, option("NUMBER", "The most ε that this device may ever spend.")],
    token: Annotated[
        str | None, option("TOKEN", "The one-time token, or a file that holds it, if the protocol uses tokens.")
    ] = None,
    json: Json = False,
) -> None:
    """Draw a person's report, or print the one drawn earlier. Prints base64; it never prints the row."""
    from crosstally.local import client

    read, values = ct.local.Protocol.load(protocol), _read_row(row)
    try:
        kept = client.FileStore(store)
        interrupts.before_charge()  # an interrupt between charge and report would lose the report
        drawn = read.report(values, store=kept, cap=cap, token=_read_token(token))
    except client.AmountError as error:
        raise BudgetError(f"--{error}") from None
    except client.ClientError as error:
        raise CrosstallyError(str(error)) from None
    except OSError as error:
        raise CrosstallyError(f"cannot write the store {str(store)!r}: {error.strerror}") from None
    text = base64.b64encode(drawn).decode("ascii")
    if json:
        print_json({"protocol": read.id, "report": text})
    else:
        data().put(text)


def _read_token(given: str | None) -> str | None:
    """The token, given directly or in a file; a file keeps it out of the list of running commands."""
    from crosstally.local.client import is_token

    if given is None or is_token(given):
        return given
    try:
        return Path(given).read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        raise CrosstallyError("cannot read the token; give its 32 hexadecimal digits, or a file with them") from None


def _read_row(given: str) -> dict[str, Any]:
    """The values, given as JSON text or in a file; a file keeps them out of the list of running commands."""
    try:
        text = given if given.lstrip().startswith(("{", "[")) else Path(given).read_text(encoding="utf-8")
        values = read_json(text, finite=False)
    except OSError as error:
        raise CrosstallyError(
            f"cannot read the row: {error.strerror}; give a JSON object, or a file with one"
        ) from None
    except ValueError:  # the reason would quote the row
        values = None
    if not isinstance(values, dict):
        raise CrosstallyError("the row must be a JSON object of values by attribute")
    return values


def simulate(
    protocol: ProtocolFile,
    rows: Annotated[str, argument("ROWS", "A file, a folder or a glob with one row for each person.")],
    *,
    output: OutputFile,
    tokens: TokenFiles = None,
    written: ReadingOptions,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Draw the reports that many people's devices would send, from a file of their rows."""
    import numpy as np

    from crosstally.sources.kinds import source_of
    from crosstally.sources.source import Scan

    read = ct.local.Protocol.load(protocol)
    held = _read_tokens(read, tokens)
    check_output(output, force=force)
    with progress_of_reading("drawing reports", rows, quiet=quiet) as tell:
        found = source_of(rows).batches(Scan(read.schema.names, written.reading()), progress=tell)
        drawn = np.concatenate(list(_simulated(read, found, held)))
    with writing(output):
        write_bytes(output, drawn.tobytes())
    _people(quiet=quiet).say(f"Saved {output}: a report of 37 bytes for each row.")


def _simulated(
    protocol: ct.local.Protocol, found: Iterable[Any], tokens: ct.local.Tokens | None
) -> Iterator[NDArray[Any]]:
    """The reports of each batch of rows, after a first empty batch; people take tokens in their order."""
    import numpy as np

    from crosstally.local.bulk import reports

    yield reports(protocol, np.zeros((len(protocol.schema.names), 0), np.int64), tokens=tokens)
    for batch in found:
        codes = _codes(protocol, batch)
        yield reports(protocol, codes, tokens=tokens)
        tokens = None if tokens is None else tokens.after(codes.shape[1])


def _codes(protocol: ct.local.Protocol, batch: Any) -> NDArray[np.int64]:
    """The cells of all rows; rows with values outside the schema are encoded one by one, by the client's code."""
    import numpy as np

    from crosstally.local.client import SecureSource, encode_row
    from crosstally.sources.codes.encode import Encoder

    encoders = [Encoder.of(attribute) for attribute in protocol.schema.attributes]
    raw = np.stack([encoder.raw(batch).astype(np.int64) for encoder in encoders])
    labels = np.array([[encoder.matcher.labels] for encoder in encoders])
    attributes, source = protocol.document["schema"]["attributes"], SecureSource()
    for place in np.flatnonzero((raw >= labels).any(axis=0)).tolist():
        (row,) = batch.slice(place, 1).to_pylist()
        raw[:, place] = encode_row(attributes, row, source)
    return raw


def release(
    protocol: ProtocolFile,
    reports: Annotated[list[Path], argument("REPORTS", "Files of reports. A report has 37 bytes.")],
    *,
    output: OutputFile,
    tokens: TokenFiles = None,
    liars: Annotated[
        float, option("SHARE", "Show how far this share of liars could move a table.", min=0, max=1)
    ] = 0.01,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Count reports, each id once, and make a release from which anyone can read any table with error bars."""
    read = ct.local.Protocol.load(protocol)
    check_output(output, force=force)
    collector = ct.local.Collector(read, tokens=_read_tokens(read, tokens))
    numbers: dict[str, int] = {}
    for path in reports:
        try:
            received = collector.add_many(path.read_bytes())
        except OSError as error:
            raise CrosstallyError(f"cannot read the reports {str(path)!r}: {error.strerror}") from None
        for reason, number in received.numbers().items():
            numbers[reason.value] = numbers.get(reason.value, 0) + number
    made = collector.release()
    made.save(output)
    table, unusual = _first_table(read.schema), collector.group_sizes().unusual
    moved = collector.max_shift(*table, liars=liars) if table else None
    if json:
        facts = {"reports": numbers, "release": str(output), "statement": made.statement.to_dict()}
        reach = {"liars": liars, "table": list(table), "people": moved}
        print_json({**facts, "unusual_groups": list(unusual), "liars": reach})
        return
    screen = _people(quiet=quiet)
    for words, number in numbers.items():
        became = "accepted" if words == ct.local.Reason.ACCEPTED else f"refused: {words}"
        screen.say(f"{number_of(number, 'report', 'reports')} {became}.")
    screen.say(_sizes_in_words(collector, unusual))
    if moved is not None:
        chosen = "whose tokens give their groups" if read.tokens else "who choose their groups"
        name = " x ".join(table)
        screen.say(f"{100 * liars:g}% liars {chosen} could have moved a cell of {name} by {moved:,.0f} people at most.")
    screen.put(f"Saved {output}. Next: crosstally table {output} {' '.join(read.schema.names[:2])}")


def _first_table(schema: Schema) -> tuple[str, ...]:
    """The first two attributes, or fewer where the influence of liars cannot be computed for two."""
    from crosstally.local.influence import MOST_CELLS

    return next(schema.names[:k] for k in (2, 1, 0) if math.prod(schema.shape[:k]) <= MOST_CELLS)


def _sizes_in_words(collector: ct.local.Collector, unusual: tuple[int, ...]) -> str:
    from crosstally.local.influence import FALSE_ALARM

    rate = f"1 of {1 / FALSE_ALARM:,.0f} honest collections"
    if not unusual:
        return f"The sizes of all groups fit their shares (checked with a false alarm in {rate})."
    worst, sizes = unusual[0], collector.group_sizes()
    asked = " x ".join(collector.protocol.schema.names[place] for place in collector.protocol.groups[worst].attributes)
    return (
        f"Warning: {len(unusual):,} groups have sizes that chance gives in fewer than {rate}; group {worst} ({asked}) "
        f"has {sizes.reports[worst]:,} reports, expected {sizes.expected[worst]:,.0f}: liars may have chosen it."
    )
