"""What the name of a column says it may be. Names are only hints: values decide where they can."""

from __future__ import annotations

import re

__all__ = ["names_age", "names_code", "names_id", "names_weight"]

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
