"""The facts of a statement in the forms of others: a registry of deployments, NIST SP 800-226, and three assessments.

Field names of the registry are those of the records in its data repository, opendp/deployments-registry-data on GitHub
(tier 3, as they were in late 2025). The rows of the checklist are our reading of the factors that NIST SP 800-226
(March 2025) arranges as a pyramid. What a standard leaves to judge is named, never decided.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from crosstally.budget import Neighbours

if TYPE_CHECKING:
    from crosstally.releases.document import Document

TO_FILL = "TO BE FILLED IN"

_ASKED = ("what is asked", "what this document supports", "what remains to judge")
ASSESSMENTS = (
    _ASKED,
    (
        (
            "GDPR, recital 26: is a person identifiable by means reasonably likely to be used?",
            "A bound on what anybody learns of one person, whatever means and other data they have, now or later.",
            "Whether that bound is low enough here; what is published besides; what is not covered, above.",
        ),
        (
            "HIPAA, 45 CFR 164.514(b)(1): does an expert find the risk very small?",
            "The methods and their results, as the determination has to document them.",
            "The expert's own finding, for the recipients and the information that they may hold.",
        ),
        (
            "ISO/IEC 27559: are context, data and identifiability assessed, and is the risk governed?",
            "The assessment of identifiability, and a record of what was spent and decided.",
            "The context of use, threats to the source data, and who governs later releases.",
        ),
    ),
)


def checklist(document: Document) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """The factors of NIST SP 800-226: what is done about each, and what remains to judge."""
    total, facts = document.total, document.facts
    budget, local = total.budget, total.model == "local"
    unit = "one row" if total.schema.unit is None else f"everything about one {total.schema.unit_word}"
    relation = "added or removed" if total.neighbours == Neighbours.ADD_REMOVE else "replaced by any other"
    delta = budget.to_dict().get("delta", "none: the promise has no exception")
    if budget.rho is not None:
        delta = "none of its own: ρ implies an ε for every δ"
    noise = ", ".join(dict.fromkeys(each["noise"] for each in facts["mechanisms"])) or "randomised on each device"
    trust = ("nobody holds the rows", "Whether devices run this client.")
    collected = "Each row leaves its device randomised."
    if not local:
        trust = ("whoever runs this software sees the rows", "Whether those who hold the rows may, and are trusted.")
        collected = "Not covered: the rows were collected as they are."
    rows = (
        ("Unit of privacy", f"{unit}, {relation}", "Whether that is what people need protected."),
        ("ε, ρ or μ²", f"{budget} for {total.what}", "Whether it is low enough for the harm at stake."),
        ("δ", delta, "" if budget.pure else "Whether it is far below one over the number of people."),
        ("Mechanism", noise, ""),
        ("Composition", _composed(facts), "Whether there are releases outside of it."),
        ("Utility and bias", "Numbers come with the intervals of their errors.", "Uses; whom large errors affect."),
        ("Trust model", f"{total.model}: {trust[0]}", trust[1]),
        (
            "Side channels",
            "Questions to a release never touch rows. Noise has no floating-point artefacts.",
            "Who can watch the machine while a release is made: how long that takes depends on the rows.",
        ),
        (
            "Security and access",
            "Exact counts are never printed or published. The ledger's entries are chained by digests.",
            "Access to the source data, to its copies, and to files of partial counts.",
        ),
        ("Data collection exposure", collected, "Collection, consent, retention and deletion."),
    )
    return ("factor", "here", "what remains to judge"), rows


def _composed(facts: Mapping[str, Any]) -> str:
    if not facts["ledger"]:
        return "The sum of the releases named; what else was published about the people is not known here."
    raised = len(facts["ledger"]["raised"])
    return "The ledger adds up every spend on these people and refuses what exceeds the cap" + (
        f", which was raised {raised} time{'s' * (raised > 1)}." if raised else "."
    )


def registry_entry(document: Document) -> dict[str, Any]:
    """The facts as a record of the public registry of deployments; what no file knows is to be filled in."""
    total, facts = document.total, document.facts
    schema, budget, local = total.schema, total.budget, total.model == "local"
    flavor = "Pure DP" if budget.pure else "Zero-concentrated DP" if budget.rho is not None else "Approximate DP"
    sections = {each.title: each for each in document.sections}
    mechanisms = [f"{row[0]}: {row[1]}, {row[2]}." for row in sections["Mechanisms"].rows]
    about = schema.about
    return {
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "product": {
                "name": document.title.partition(": ")[2],
                "data_curators": [(about and about.source) or TO_FILL],
                "intended_use": TO_FILL,
                "data_product_type": "Summary statistics",
                "data_product_region": TO_FILL,
                "description": f"Contingency tables of {schema.counted}: {', '.join(schema.names)}.",
                "publication_date": TO_FILL,
                "data_product_sector": TO_FILL,
            },
            "dp_flavor": {
                "name": flavor,
                "data_domain": f"Every table with these columns and values: {schema}.",
                "unprotected_quantities": " ".join(sections["What is not covered"].sentences),
            },
            "privacy_loss": {
                "privacy_unit": "Person-level" if schema.unit is None else f"{schema.unit_word.capitalize()}-level",
                "privacy_unit_description": " ".join(total.sentences),
                "privacy_parameters": {name: float(getattr(budget, name)) for name in budget.to_dict()},
                "privacy_parameters_description": f"This is about {total.what}.",
            },
            "model": {
                "model_name": "Local" if local else "Central",
                "actors": TO_FILL,
                "release_type": "One release" if len(document.files) == 1 and not facts["ledger"] else "Many releases",
                "data_source_type": TO_FILL,
                "access_type": "Non-interactive",
            },
            "accounting": {
                "post_processing": "Least squares, shrinkage and non-negativity of the noisy counts; synthetic rows. "
                "They use no rows.",
                "composition": _composed(facts),
            },
            "implementation": {
                "pre_processing_eda_hyperparameter_tuning": " ".join(sections["What was counted"].sentences),
                "mechanisms": " ".join([*mechanisms, sections["Mechanisms"].sentences[0]]),
                "justification": TO_FILL,
            },
            "resources": {"sources": TO_FILL, "registry_authors": [TO_FILL]},
        },
    }


def yaml_text(value: Mapping[str, Any], indent: int = 0) -> str:
    """Nested objects, texts, numbers and lists of texts as YAML; texts are quoted as in JSON, which YAML contains."""
    from json import dumps

    lines = []
    for key, each in value.items():
        head = f"{' ' * indent}{key}:"
        if isinstance(each, Mapping):
            lines += [head, yaml_text(each, indent + 2).rstrip("\n")]
        elif isinstance(each, list):
            lines += [head, *(f"{' ' * indent}  - {dumps(text, ensure_ascii=False)}" for text in each)]
        else:
            lines.append(f"{head} {dumps(each, ensure_ascii=False)}")
    return "\n".join(lines) + "\n"
