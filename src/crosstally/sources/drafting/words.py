"""What names and labels mean: ids and weights by their names, the order of labels, and spellings of the same."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

# What the name of a column says it may be. Names are only hints: values decide where they can.


_WORD = re.compile(r"[A-ZÀ-Þ]+(?![a-zß-ÿ])|[A-ZÀ-Þ]?[a-zß-ÿ]+")
_AGES = {"age", "agep", "alter", "âge", "edad", "età", "leeftijd", "ålder"}  # agep: the American Community Survey's
_IDS = {"id", "ids", "uid", "pid", "guid", "uuid", "key", "person", "patient", "customer", "client", "member", "user"}
_IDS |= {"personid", "patientid", "customerid", "clientid", "memberid", "userid", "kunde", "idnr"}
_NUMBERS = {"nr", "no", "num", "nummer", "number", "numéro", "numero", "núm"}
_OF_PEOPLE = {
    "pers",
    "person",
    "personal",
    "personnel",
    "employee",
    "staff",
    "mitarbeiter",
    "kunden",
    "klient",
    "klienten",
}
_OF_PEOPLE |= {"versicherten", "mitglied", "mitglieder", "matrikel", "insured", "insurance", "account", "fall", "case"}
_OF_PEOPLE |= {"patienten", "schüler", "studierenden", "student", "teilnehmer", "participant", "respondent"}
_CODES = {"code", "codes", "cd", "zip", "zipcode", "plz", "postcode", "fips", "puma"}
_CODES |= {"naics", "naicsp", "nace", "noga", "isic", "sic", "isco", "soc", "socp", "occp", "indp", "icd"}  # registers
_WEIGHTS = {"fnlwgt", "wgt", "wght", "wgtp", "pwgtp", "pweight", "finalweight", "wtfinl", "hhwt", "perwt", "asecwt"}
_OF_SURVEYS = {
    "survey",
    "sample",
    "sampling",
    "design",
    "final",
    "base",
    "person",
    "household",
    "population",
    "hochrechnung",
}


def names_weight(name: str) -> bool:
    """Whether a name is that of a survey's weights; ``weight`` alone may be a person's, in kilograms.

    >>> [names_weight(name) for name in ("fnlwgt", "PWGTP", "wgt_2", "survey_weight", "FinalWeight", "weight", "wt")]
    [True, True, True, True, True, False, False]
    """
    words = set(_words(name))
    return bool(words & _WEIGHTS) or ("weight" in words and bool(words & _OF_SURVEYS))


def names_id(name: str) -> bool:
    """Whether a name is that of somebody's identity.

    >>> [names_id(name) for name in ("id", "person_id", "PatientID", "KundenNr", "Pers-Nr", "userid", "Case No.")]
    [True, True, True, True, True, True, True]
    >>> [names_id(name) for name in ("Patienten-Nr", "Personalnummer", "Hausnummer", "Zimmernr")]
    [True, True, False, False]
    >>> [names_id(name) for name in ("idle", "number_of_rooms", "number of staff", "staff")]
    [False, False, False, False]
    """
    words = [part for word in _words(name) for part in _parts(word)]
    is_number = not {"of", "von", "de"} & set(words) and bool(set(words) & _NUMBERS and set(words) & _OF_PEOPLE)
    return is_number or bool(set(words) & _IDS) or "".join(words) in _IDS


def names_code(name: str) -> bool:
    """Whether a name is that of a classification, whose numbers have no size.

    >>> [names_code(name) for name in ("INDP", "zip", "occupation_code", "income")]
    [True, True, True, False]
    """
    return bool(set(_words(name)) & _CODES)


def names_age(name: str) -> bool:
    """Whether a name is that of an age in years.

    >>> [names_age(name) for name in ("age", "AGEP", "Age (years)", "age_group", "average")]
    [True, True, True, True, False]
    """
    return bool(set(_words(name)) & _AGES)


def _parts(word: str) -> list[str]:
    """The parts of a German compound that ends with a word for a number; else the word alone."""
    ends = [end for end in ("nummer", "nr") if word.endswith(end) and word != end]
    return [word.removesuffix(ends[0]), ends[0]] if ends else [word]


def _words(name: str) -> list[str]:
    """The words of a name in small letters: at marks, digits, and where a capital begins."""
    return [word.lower() for word in _WORD.findall(name)]


# The order of labels: months, sizes, grades and ranges have one; other texts stand as in a dictionary.


_SCALES = tuple(
    tuple(scale.split(", "))
    for scale in (
        "january, february, march, april, may, june, july, august, september, october, november, december",
        "jan, feb, mar, apr, may, jun, jul, aug, sep, oct, nov, dec",
        "januar, februar, märz, april, mai, juni, juli, august, september, oktober, november, dezember",
        "jan, feb, mär, apr, mai, jun, jul, aug, sep, okt, nov, dez",
        "janvier, février, mars, avril, mai, juin, juillet, août, septembre, octobre, novembre, décembre",
        "monday, tuesday, wednesday, thursday, friday, saturday, sunday",
        "mon, tue, wed, thu, fri, sat, sun",
        "montag, dienstag, mittwoch, donnerstag, freitag, samstag, sonntag",
        "lundi, mardi, mercredi, jeudi, vendredi, samedi, dimanche",
        "xxs, xs, s, m, l, xl, xxl, xxxl",
        "tiny, small, medium, large, huge",
        "none, mild, moderate, severe, critical",
        "never, rarely, sometimes, often, always",
        "very low, low, medium, high, very high",
        "low, middle, high",
        "very bad, bad, average, good, very good",
        "very poor, poor, fair, good, very good, excellent",
        "strongly disagree, disagree, neutral, agree, strongly agree",
        "very dissatisfied, dissatisfied, neutral, satisfied, very satisfied",
        "primary, secondary, tertiary",
        "niedrig, mittel, hoch",
        "klein, mittel, gross",
        "klein, mittel, groß",
        "nie, selten, manchmal, oft, immer",
        "sehr schlecht, schlecht, mittel, gut, sehr gut",
    )
)
_BELOW = r"<=?|≤|under|below|less than|up to|unter|bis|moins de"
_ABOVE = r">=?|≥|over|above|more than|über|ab|plus de"
_NUMBER = re.compile(
    rf"(?P<below>{_BELOW})?(?P<above>{_ABOVE})?\s*[$€£]?\s*(?P<number>-?[0-9]+(?:\.[0-9]+)?)", re.IGNORECASE
)
_MOST_OTHERS = 2  # labels outside a scale that may follow it: not known, refused


def in_order(labels: Iterable[str]) -> tuple[str, ...]:
    """The labels in the order that their words or numbers have, otherwise sorted.

    >>> in_order(["L", "S", "XL", "M"]), in_order(["10", "9", "N"]), in_order([">50K", "<=50K"])
    (('S', 'M', 'L', 'XL'), ('9', '10', 'N'), ('<=50K', '>50K'))
    """
    given = tuple(labels)
    scale = _scale_of(given)
    if scale is not None:
        return tuple(sorted(given, key=lambda label: (scale.get(label.strip().casefold(), len(scale)), label)))
    return tuple(sorted(given, key=_key))


def _scale_of(labels: Sequence[str]) -> dict[str, int] | None:
    """The places of a known scale that has all of the labels but for one or two, and more than two of its own."""
    words = {label.strip().casefold() for label in labels}
    for scale in _SCALES:
        common = words & set(scale)
        if len(common) >= min(3, len(words)) > 1 and len(words - common) <= min(_MOST_OTHERS, len(common) - 2):
            return {word: place for place, word in enumerate(scale)}
    return None


def _key(label: str) -> tuple[int, Fraction, int, str]:
    """Labels that begin with a number come first, by that number; of two alike, what is below it is before."""
    found = _NUMBER.match(label.strip())
    if found is None:
        return 1, Fraction(0), 0, label.casefold()
    mark = -1 if found["below"] else 1 if found["above"] or label.strip().endswith("+") else 0
    return 0, Fraction(found["number"]), mark, label


# Texts that mean the same: spellings that differ in case or blanks, and words for a missing value.


_TOKENS = {
    "na",
    "n/a",
    "n.a.",
    "#n/a",
    "#na",
    "nan",
    "null",
    "nil",
    "<na>",
    "-",
    "--",
    "---",
    ".",
    "..",
    "?",
    "missing",
}
_TOKENS |= {"k.a.", "k. a.", "keine angabe", "keine angaben", "no answer", "not stated", "non indiqué"}


def missing_tokens(texts: Iterable[str]) -> tuple[str, ...]:
    """The texts that usually stand for a missing value, in order. "Unknown" is a label: it may be an answer.

    >>> missing_tokens(["Yes", "n/a", "?", "Unknown"])
    ('?', 'n/a')
    """
    return tuple(sorted(text for text in texts if " ".join(text.split()).casefold() in _TOKENS or not text.strip()))


def grouped(rows: Mapping[str, int]) -> tuple[Counter[str], dict[str, tuple[str, ...]]]:
    """The rows of each label, and the other spellings of those that have some; the most frequent one is the label.

    >>> grouped({"Female": 9, "female": 2, " Female": 1, "Male": 8})[1]
    {'Female': (' Female', 'female')}
    """
    alike: dict[str, list[str]] = {}
    for text in rows:
        alike.setdefault(" ".join(text.split()).casefold(), []).append(text)
    labels: Counter[str] = Counter()
    groups = {}
    for texts in alike.values():
        first = min(texts, key=lambda text: (-rows[text], text))
        label = " ".join(first.split()) if len(texts) > 1 else first
        labels[label] = sum(rows[text] for text in texts)
        others = tuple(sorted(text for text in texts if text != label))
        if others:
            groups[label] = others
    return labels, groups
