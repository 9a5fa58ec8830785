"""The privacy guarantee of a release, as a value and in words."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from crosstally.budget import MOST_EPSILON, Budget, Neighbours, decimal_text, zcdp_epsilon
from crosstally.errors import CrosstallyError, ReleaseError, did_you_mean
from crosstally.gaussian_curve import chance_of_guessing, gaussian_epsilon
from crosstally.html_text import html_facts
from crosstally.measurements import UNRECORDED
from crosstally.schema import Schema, Unit

MODELS = ("central", "local")
# A usual delta, at which the text gives a rho as an epsilon; a different one would only change the text.
_USUAL_DELTA = Fraction(1, 10**6)
_JOINS = {
    "public": "The query joins tables that its maker declared public",
    "unit": "The query joins tables by {unit}, and the bound on rows holds for its result",
    "asserted": "The query joins tables, and its maker answers for what they hold",
}
"""Why a query may join a table, as ``sources/joins.py`` has it, and the words for it."""
_DIGEST = re.compile("[0-9a-f]{64}")
NOT_RECORDED = "not recorded in any ledger"
_UNRECORDED_SENTENCE = "This spend is not recorded in any ledger: nothing adds it up with others."


@cache
def installed_versions() -> Mapping[str, str]:
    """The versions of the packages that a release's numbers come from."""
    installed = {}
    for package in ("crosstally", "numpy", "opendp"):
        try:
            installed[package] = version(package)
        except PackageNotFoundError:
            installed[package] = "unknown"
    return installed


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """The privacy guarantee of a release, and what was taken as public when it was made.

    ``rows`` is the number of rows if the steward asserted that it is public; ``rows_are_units`` says that the steward
    answers for a query whose rows may depend on other rows. ``joins`` says of each table that a query joined why it
    may: "public", "unit" (by the unit's id) or "asserted". ``entry`` names the ledger entry that paid, ``plan`` is the
    digest of the plan that it was charged for, as the ledger has it. ``plain`` gives all of it in sentences.

    >>> statement = Statement(strategy="flat", budget=Budget(epsilon=1), neighbours=Neighbours.ADD_REMOVE)
    >>> print(statement)
    ε = 1, add-remove, flat
    """

    strategy: str
    budget: Budget
    neighbours: Neighbours
    model: str = "central"
    unit: Unit | None = None
    rows: int | None = None
    versions: Mapping[str, str] | None = None
    entry: str | None = None
    rows_are_units: bool = False
    plan: str | None = None
    joins: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        for name, kind, rule in (("strategy", str, "a text"), ("budget", Budget, "a Budget")):
            if not isinstance(getattr(self, name), kind):
                raise ReleaseError(f"statement: {name} must be {rule}, got {type(getattr(self, name)).__name__}")
        if self.model not in MODELS:
            raise ReleaseError(f"statement: model must be central or local, got {self.model!r}")
        if self.neighbours not in list(Neighbours):
            raise ReleaseError(f"statement: neighbours must be add-remove or replace, got {self.neighbours!r}")
        if self.unit is not None and not isinstance(self.unit, Unit):
            raise ReleaseError(f"statement: unit must be a Unit, got {type(self.unit).__name__}")
        if self.rows is not None and (isinstance(self.rows, bool) or not isinstance(self.rows, int) or self.rows < 0):
            raise ReleaseError(f"statement: rows must be a whole number of at least 0, got {self.rows!r}")
        if self.rows is not None and self.rows >= 2**63:
            raise ReleaseError("statement: rows must be below 2^63")
        if self.entry is not None and not isinstance(self.entry, str):
            raise ReleaseError(f"statement: entry must be a text, got {type(self.entry).__name__}")
        if self.plan is not None and not (isinstance(self.plan, str) and _DIGEST.fullmatch(self.plan)):
            raise ReleaseError("statement: plan must be a SHA-256 in hexadecimal")
        if not isinstance(self.rows_are_units, bool):
            raise ReleaseError(f"statement: rows_are_units must be true or false, got {self.rows_are_units!r}")
        object.__setattr__(self, "joins", _read_joins(self.joins))
        object.__setattr__(self, "neighbours", Neighbours(self.neighbours))
        object.__setattr__(self, "versions", _read_versions(self.versions))

    def __str__(self) -> str:
        return ", ".join([str(self.budget), self.neighbours.value, *self._unit_words(), self.strategy])

    @property
    def paid(self) -> str | None:
        """The ledger entry that paid, or that no ledger recorded the spend; None where nothing was bought."""
        return NOT_RECORDED if self.entry is not None and UNRECORDED in self.entry else self.entry

    def _repr_html_(self) -> str:
        facts = {
            "budget": f"{self.budget}, {self.neighbours.value}",
            "model": self.model,
            "protects": "one row" if self.unit is None else self._unit_words()[0],
            "number of rows": "protected" if self.rows is None else f"{self.rows:,}, public",
            "strategy": self.strategy,
            **({} if self.paid is None else {"paid by": self.paid}),
        }
        return html_facts("Privacy", facts)

    def _unit_words(self) -> list[str]:
        return [] if self.unit is None else [self.unit.rows_words]

    def caption(self, schema: Schema) -> str:
        """The statement in short, with what is counted in the words of the schema: what each answer shows."""
        parts = (str(self.budget), self.neighbours.value, schema.bounded_words, self.strategy)
        return ", ".join(filter(None, parts))

    def plain(self, schema: Schema) -> tuple[str, ...]:
        """What is guaranteed, to whom, and what is not protected, in sentences."""
        unrecorded = () if self.paid != NOT_RECORDED else (_UNRECORDED_SENTENCE,)
        whole = guarantee(self.budget, self.neighbours, schema)
        return (
            *self.model_sentences,
            *whole,
            unit_sentence(schema),
            *self.asserted_sentences,
            *self.public_sentences(schema),
            *unrecorded,
            *fact_sentences(schema),
            *caveats(schema),
        )

    @property
    def model_sentences(self) -> tuple[str, ...]:
        """Who held the rows, where nobody did."""
        if self.model == "central":
            return ()
        return ("Every person perturbed their own row before sending it; nobody ever held the rows.",)

    @property
    def asserted_sentences(self) -> tuple[str, ...]:
        """What the maker of a query answers for."""
        unit = "person" if self.unit is None else self.unit.id
        query = "The rows come of a query in which rows may depend on each other"
        asserted = f"{query}; its maker asserted that each row is of one {unit} alone, and the promise rests on that."
        return (*((asserted,) if self.rows_are_units else ()), *_joined_sentences(self, unit))

    def public_sentences(self, schema: Schema) -> tuple[str, ...]:
        """What is public from the start, and whether the number of rows is."""
        public = "The names of the attributes and their values come from a public schema and are not protected."
        rows = "rows" if schema.unit is None else schema.noun
        if self.rows is not None:
            return (public, f"The number of rows, {self.rows:,}, was declared public and is not protected.")
        if self.neighbours == Neighbours.REPLACE:
            return (public, f"Nothing is promised about the number of {rows}: replacing one leaves it as it is.")
        return (
            public,
            f"The number of {rows} is protected too: what the release says about it is a noisy measurement.",
        )

    def to_dict(self) -> dict[str, Any]:
        """The statement as JSON; what is absent is null."""
        return {
            "model": self.model,
            "strategy": self.strategy,
            "budget": self.budget.to_dict(),
            "neighbours": self.neighbours.value,
            "unit": None if self.unit is None else self.unit.identity(),
            "rows": self.rows,
            "versions": dict(self.versions or {}),
            "entry": self.entry,
            "rows_are_units": self.rows_are_units,
            "plan": self.plan,
            "joins": dict(self.joins or {}),
        }

    @classmethod
    def from_dict(cls, given: object) -> Statement:
        """A statement from its JSON; errors name the field."""
        if not isinstance(given, Mapping):
            raise ReleaseError(f"statement must be an object, got {type(given).__name__}")
        known = tuple(field.name for field in fields(cls))
        for key in given:
            if key not in known:
                raise ReleaseError(f"statement: unknown field {key!r}{did_you_mean(str(key), known)}")
        for key in known:
            if key not in given:
                raise ReleaseError(f"statement: the field {key!r} is missing")
        try:
            budget, unit = Budget.from_dict(given["budget"]), _read_unit(given["unit"])
        except CrosstallyError as error:
            raise ReleaseError(f"statement: {error}") from None
        return cls(**{**given, "budget": budget, "unit": unit})


def _read_joins(given: object) -> Mapping[str, str]:
    joins = {} if given is None else given
    texts = isinstance(joins, Mapping) and all(isinstance(t, str) for pair in joins.items() for t in pair)
    if not isinstance(joins, Mapping) or not texts or not set(joins.values()) <= set(_JOINS):
        raise ReleaseError(f"statement: joins must be an object of tables, each with one of {', '.join(_JOINS)}")
    return dict(joins)


def _read_versions(given: object) -> Mapping[str, str]:
    versions = installed_versions() if given is None else given
    if not isinstance(versions, Mapping) or not all(isinstance(t, str) for pair in versions.items() for t in pair):
        raise ReleaseError("statement: versions must be an object of texts")
    return dict(versions)


def _read_unit(given: object) -> Unit | None:
    if given is None:
        return None
    if not isinstance(given, Mapping) or set(given) not in ({"id", "max_rows"}, {"id", "divided"}):
        raise ReleaseError("unit must be an object with id and max_rows, or with id and divided")
    return Unit.from_dict(given)


# The statement in words


def guarantee(budget: Budget, neighbours: Neighbours | str, schema: Schema, *, tables: str = "") -> tuple[str, ...]:
    """The promise of a budget: by what probabilities change, and what that means in chances.

    ``tables`` says in which tables a person's rows are, where there are several.
    """
    change = _change(Neighbours(neighbours), schema, tables)
    return (_factors(budget, change), belief(budget, neighbours, schema), *hides_little(budget))


def _factors(budget: Budget, change: str) -> str:
    if budget.epsilon is not None:
        if budget.delta is None:
            return f"{change} changes the probability of any output by a factor of at most {_factor(budget.epsilon)}."
        return (
            f"{change} changes the probability of any output by a factor of at most {_factor(budget.epsilon)}, "
            f"apart from an extra chance of at most {decimal_text(budget.delta)} (differential privacy with {budget})."
        )
    kind = "zero-concentrated" if budget.currency == "rho" else "Gaussian"
    return (
        f"{change} is hidden by {kind} differential privacy with {budget}: it changes the probability of "
        f"any output by a factor of at most {_factor(_usual_epsilon(budget))}, "
        "apart from an extra chance of at most one in a million."
    )


def _change(neighbours: Neighbours, schema: Schema, tables: str) -> str:
    whole = f"all {'rows' if tables else schema.row_word} of any one {_person(schema)}{tables}"
    what = "any one person's row" if schema.unit is None and not tables else whole
    return f"Adding or removing {what}" if neighbours == Neighbours.ADD_REMOVE else f"Replacing {what} by any other"


def _person(schema: Schema) -> str:
    return "person" if schema.unit is None else schema.unit_word


def belief(budget: Budget, neighbours: Neighbours | str, schema: Schema) -> str:
    """What a budget means for one person, in chances: of somebody who knew all the rest, and thought it 50 to 50.

    With a pure epsilon it is what they believe after any output. Otherwise single outputs may tell more, with a small
    probability, and it is how often they guess right.
    """
    who = f"a {_person(schema)}"
    once, twice = (_sure(_wrong_guesses(budget, steps)) for steps in (1, 2))
    if Neighbours(neighbours) == Neighbours.REPLACE:
        two = f"which of two things is true of {who}"
        if budget.pure:
            return f"In chances: whoever thought it 50 to 50 {two} becomes at most {once} sure."
        return f"In chances: whoever has to guess {two}, 50 to 50 before, is right at most {once} of the time."
    if budget.pure:
        return (
            f"In chances: whoever thought it 50 to 50 that {who} is in the data becomes at most {once} sure, "
            f"and at most {twice} sure about what the data say of them."
        )
    return (
        f"In chances: whoever has to guess whether {who} is in the data, 50 to 50 before, is right at most {once} of "
        f"the time, and at most {twice} of the time about which of two things the data say of them."
    )


def _wrong_guesses(budget: Budget, steps: int) -> float:
    """How often a guess between two cases is wrong at least, for data so many neighbours apart, 50 to 50 before.

    A guess is right in (1 + D) / 2 of all cases, where D is the total variation distance. With epsilon and delta it is
    wrong in (1 - delta) / (1 + e^epsilon) at least (Kairouz, Oh and Viswanath 2015), and two steps have
    2 epsilon and (1 + e^epsilon) delta. With rho the Kullback-Leibler divergence is at most steps^2 rho (Bun and
    Steinke 2016), D^2 at most half of it (Pinsker) and at most 1 - e^-rho (Bretagnolle and Huber). By mu^2 it is wrong
    in Phi(-mu / 2), and steps count with their square.
    """
    if budget.currency == "mu2":
        return 1 - chance_of_guessing(steps**2 * budget.amount)
    if budget.rho is not None:
        divergence = min(steps**2 * float(budget.rho), 700.0)
        return (1 - min(math.sqrt(divergence / 2), math.sqrt(-math.expm1(-divergence)))) / 2
    assert budget.epsilon is not None  # a budget has one of them
    epsilon = min(float(budget.epsilon), 300.0)
    delta = float(budget.delta or 0) * sum(math.exp(step * epsilon) for step in range(steps))
    return max(0.0, 1 - delta) / (1 + math.exp(steps * epsilon))


def hides_little(budget: Budget) -> tuple[str, ...]:
    """The sentence about a budget that the terminal asks about, wherever it was spent."""
    if budget.epsilon is None or budget.epsilon <= MOST_EPSILON:
        return ()
    return (f"An ε above {MOST_EPSILON} hides little: weigh what follows if somebody becomes sure of one person.",)


def _usual_epsilon(budget: Budget) -> Fraction:
    """The epsilon of a budget; that of a rho or mu^2 at a usual delta, rounded up to hundredths."""
    if budget.epsilon is not None:
        return budget.epsilon
    implied = zcdp_epsilon if budget.currency == "rho" else gaussian_epsilon
    return Fraction(math.ceil(100 * Fraction(implied(budget.amount, _USUAL_DELTA))), 100)


def _sure(wrong: float) -> str:
    """The chance to be right, rounded up.

    >>> _sure(1 / (1 + math.e)), _sure(0.475), _sure(1 / (1 + math.exp(10))), _sure(1e-9)
    ('74%', '53%', '99.996%', 'practically 100%')
    """
    if wrong < 1e-6:
        return "practically 100%"
    digits = max(0, math.ceil(-math.log10(wrong)) - 2)
    return f"{math.ceil(100 * (1 - wrong) * 10**digits) / 10**digits:.{digits}f}%"


def _factor(epsilon: Fraction) -> str:
    """The power of e and its value, rounded up, where that says something.

    >>> _factor(Fraction(1)), _factor(Fraction("0.1")), _factor(Fraction(10)), _factor(Fraction(100))
    ('e^1 = 2.72', 'e^0.1 = 1.11', 'e^10 = 22,027', 'e^100')
    """
    power = decimal_text(epsilon)
    if epsilon > 20:
        return f"e^{power}"
    value = math.exp(epsilon)
    digits = max(0, 2 - math.floor(math.log10(value)))
    return f"e^{power} = {math.ceil(value * 10**digits) / 10**digits:,.{digits}f}"


def unit_sentence(schema: Schema) -> str:
    """Who is protected."""
    if schema.unit is None:
        return "This protects one row: someone with several rows is protected for each of them alone."
    whole = f"This protects everything about one {schema.unit_word}, found by {schema.unit.id}"
    if schema.divided:
        return f"{whole}. Counts are of {schema.counted}: with r of them, each counts 1/r."
    return f"{whole}. Counts are of {schema.counted}, not of all {schema.row_word}."


def _joined_sentences(statement: Statement, unit: str) -> tuple[str, ...]:
    out = []
    for how, words in _JOINS.items():
        tables = [name for name, own in (statement.joins or {}).items() if own == how]
        if tables:
            out.append(f"{words.format(unit=unit)}: {', '.join(tables)}.")
            if how != "unit":
                out.append(f"People who appear only in {' or '.join(tables)} are not protected.")
    return tuple(out)


def fact_sentences(schema: Schema) -> tuple[str, ...]:
    """What the steward asserted as public."""
    if not schema.facts:
        return ()
    listed = "; ".join(map(str, schema.facts))
    return (
        f"Asserted by the steward as public: {listed}. The guarantee is given these facts; they are not protected.",
    )


def caveats(schema: Schema) -> tuple[str, ...]:
    """How the schema was made, as far as readers of a plan or a release must know, in sentences."""
    return (*_chosen_sentences(schema), *_bought_sentences(schema), *_counted_sentences(schema))


def _chosen_sentences(schema: Schema) -> tuple[str, ...]:
    """What was chosen by looking at the rows, which the budget does not cover."""
    chosen = [f"the values of {attribute.name}" for attribute in schema.attributes if attribute.from_data]
    if schema.unit is not None and schema.unit.from_data:
        chosen.append(f"the bound of {schema.unit.max_rows:,} {schema.row_word} of each {schema.unit_word}")
    if not chosen:
        return ()
    listed = _listed(chosen)
    verb = "was" if chosen[0].startswith("the bound") else "were"
    return (
        f"{listed[0].upper()}{listed[1:]} {verb} chosen by looking at the data; epsilon does not cover that choice.",
    )


def _bought_sentences(schema: Schema) -> tuple[str, ...]:
    """The cost of the bins of a draft: it is spent on the same people, in addition to the budget of a release."""
    if schema.bought is None:
        return ()
    paid = f"ε = {schema.bought.epsilon}, beside the budget of a release ({schema.bought.entry})"
    return (f"The bins of {_listed(schema.bought.attributes)} follow noisy counts that cost {paid}.",)


def _listed(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def _counted_sentences(schema: Schema) -> tuple[str, ...]:
    if schema.about is None or schema.about.counts is None:
        return ()
    return ("These tables count records, not the population: the weights of the survey are not used.",)
