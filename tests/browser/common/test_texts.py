"""One catalogue has every text of all sites: no template says anything else, and all of it is used."""

import re
from pathlib import Path

import pytest

import crosstally.browser
from crosstally.browser.common.site import catalogue, texts_of
from crosstally.reliability import PUBLISHED

ROOT = Path(crosstally.browser.__file__).parent
FOLDERS = {"explorer": "explorer", "page": "explorer", "review": "steward", "plan": "steward", "common": "."}
BUILT = (
    "about.",
    "how.",
    "method.",
    "quantity.",
    "reliability.",
    "table.show.",
    "table.order.",
    "table.chart.",
    "form.add-remove",
    "form.replace",
    "outside.",
)
"""Keys that code and templates put together."""


@pytest.mark.parametrize("site", FOLDERS)
def test_every_text_is_used(site: str) -> None:
    files = [path for path in (ROOT / FOLDERS[site]).rglob("*") if path.suffix in (".py", ".html")]
    code = "\n".join(path.read_text(encoding="utf-8") for path in files)
    unused = [key for key in catalogue()[site] if f'"{key}"' not in code and f"'{key}'" not in code]
    by_side = ("table.rows", "table.columns")  # written by the name of a side
    assert [key for key in unused if not key.startswith(BUILT) and key not in by_side] == []


@pytest.mark.parametrize("path", sorted(ROOT.glob("*/templates/*.html")), ids=lambda path: path.name)
def test_templates_have_no_words_of_their_own(path: Path) -> None:
    markup = re.sub(r"<(code|pre)\b.*?</\1>", " ", path.read_text(encoding="utf-8"), flags=re.DOTALL)  # commands
    words = re.sub(r"<[^>]*>", " ", re.sub(r"\{[{%#].*?[#%}]\}", " ", markup, flags=re.DOTALL))
    assert set(re.findall(r"[A-Za-z-]{2,}", words)) <= {"OpenAPI", "PNG", "SVG", "amp", "tables"}


def test_sites_do_not_say_again_what_they_share() -> None:
    shared = set(catalogue()["common"])
    assert [key for site, texts in catalogue().items() if site != "common" for key in texts if key in shared] == []


def test_every_site_calls_reliability_the_same() -> None:
    for each in PUBLISHED:
        assert texts_of("explorer")(f"reliability.{each.key}") == texts_of("page")(f"reliability.{each.key}")
