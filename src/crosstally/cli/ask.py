"""``crosstally ask``: pay for one question and remember its answer, or estimate it for free from earlier answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import crosstally as ct
from crosstally.cli.interrupts import before_charge
from crosstally.cli.options import Epsilon, Json, Mu2, Quiet, Rho, Rows, argument, flag, option
from crosstally.cli.output.screen import amount, count, data, facts, people, print_json, progress, progress_of_reading
from crosstally.cli.source_options import ReadingOptions
from crosstally.errors import BudgetError, QueryError
from crosstally.schema import Schema

if TYPE_CHECKING:
    from crosstally.notebook.results import Answer


EXAMPLES = (
    'crosstally ask people.csv --ledger people.ledger "25 <= age < 35 and sex = Female" --epsilon 0.05',
    'crosstally ask --ledger people.ledger "sex = Female" --free',
    'crosstally ask --ledger people.ledger "sex = Female" --error 50',
    'crosstally ask people.csv --ledger people.ledger "total(children) where sex = Female" --epsilon 0.05',
)


Words = Annotated[
    list[str],
    argument(
        "[SOURCE] QUESTION",
        "The source is a file, a folder or a glob; leave it out when nothing is spent. The question says "
        "which rows to count, '25 <= age < 35 and sex = Female', or what to add up, 'total(children) "
        "where sex = Female'.",
    ),
]


Foreign = Annotated[
    Path | None,
    option(
        "CSV",
        "Noisy answers from elsewhere to use too: question, value, variance, origin. The budget does not cover them.",
    ),
]
Covariance = Annotated[
    Path | None,
    option(
        "CSV",
        "The covariance of these answers' noise, where it is correlated: numbers alone, a line for each answer. The "
        "file of answers then has no column variance.",
    ),
]


def ask(
    words: Words,
    *,
    ledger: Annotated[Path, option("FILE", "The ledger that records what is spent and keeps the answers.")],
    epsilon: Epsilon = None,
    rho: Rho = None,
    mu2: Mu2 = None,
    free: Annotated[bool, flag("Spend nothing: estimate the answer from earlier answers.", "--free")] = False,
    error: Annotated[
        float | None, option("COUNT", "Spend nothing: print what an answer with this standard error would cost.")
    ] = None,
    schema: Annotated[
        Path | None, option("FILE", "The steward's schema, needed where it says how to read the source.")
    ] = None,
    foreign: Foreign = None,
    foreign_covariance: Covariance = None,
    rows: Rows = None,
    key: Annotated[
        str | None, option("TEXT", "A name for this spend. Repeating a name repeats the answer and costs nothing.")
    ] = None,
    written: ReadingOptions,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Count the rows that satisfy a condition, or add up a column. You pay once; later questions use the answer too."""
    ways = sum(option is not None for option in (epsilon, rho, mu2, error)) + free
    if ways != 1:
        raise BudgetError("say one of --epsilon, --rho, --mu2, --free and --error")
    *sources, question = words
    if len(sources) > 1 or (not sources and not free and error is None):
        raise QueryError(f"a source and one question are needed, the question in quotes; got {len(words)} arguments")
    read = None if schema is None else Schema.load(schema)
    notebook = ct.open_notebook(ct.Ledger.open(ledger, before_charge=before_charge), rows=rows, schema=read)
    if foreign is not None:
        notebook.add_file(foreign, covariance=foreign_covariance)
    elif foreign_covariance is not None:
        raise QueryError("--foreign-covariance belongs to the answers of --foreign, which is missing")
    if error is not None:
        _show_price(notebook, question, error, json=json)
        return
    if free:
        with progress("weighing earlier answers", quiet=quiet or json):
            answer = notebook.estimate(question)
    else:
        with progress_of_reading("counting", sources[0], quiet=quiet or json) as tell:
            spend: dict[str, Any] = {"epsilon": epsilon, "rho": rho, "mu2": mu2, "key": key}
            answer = notebook.ask(sources[0], question, reading=written.reading(), progress=tell, **spend)
    _show(notebook, answer, json=json, quiet=quiet)


def _show(notebook: ct.Notebook, answer: Answer, *, json: bool, quiet: bool) -> None:
    from crosstally.budget import decimal_text

    low, high = answer.interval(0.95)
    left = notebook.ledger.remaining
    if json:
        print_json(
            {
                "question": answer.question,
                **({"counted": answer.counted} if answer.counted else {}),
                "value": answer.value,
                "std_error": answer.std_error,
                "interval": [low, high],
                "drawn": answer.drawn,
                "drawn_error": answer.drawn_error,
                "key": answer.key,
                "foreign": list(answer.foreign),
                "remaining": decimal_text(left),
                "currency": notebook.ledger.currency,
            }
        )
        return
    screen = data()
    screen.print(f"{count(answer.value)} ± {count(answer.std_error)}", style="bold")
    lines = [("question", answer.question), ("95%", f"{count(low)} to {count(high)}")]
    lines[1:1] = [("counted", answer.counted)] if answer.counted else []
    if answer.drawn is not None and answer.drawn_error is not None:
        lines.append(("drawn", f"{count(answer.drawn)} ± {count(answer.drawn_error)}, before earlier answers are used"))
    if answer.foreign:
        lines.append(("foreign", f"also from {', '.join(answer.foreign)}, which this ledger's budget does not cover"))
    screen.put_table(facts(lines))
    words = "Nothing was spent" if answer.key is None else f"Kept under the key {answer.key}"
    people(quiet=quiet).say(f"{words}; {amount(left, notebook.ledger.currency)} is left.")


def _show_price(notebook: ct.Notebook, question: str, error: float, *, json: bool) -> None:

    price = notebook.cost(question, error=error)
    known = price.estimate
    if json:
        print_json(
            {
                "free": price.free,
                "budget": None if price.budget is None else price.budget.to_dict(),
                "value": None if known is None else known.value,
                "std_error": None if known is None else known.std_error,
            }
        )
        return
    screen = data()
    if price.budget is None and known is not None:
        screen.say(f"Free: {count(known.value)} ± {count(known.std_error)} is known already; use --free.")
    else:
        screen.say(f"It would cost {price.budget}.")
        if known is not None:
            screen.say(f"Known for free: {count(known.value)} ± {count(known.std_error)}.", style="dim")
