"""Write leute.csv: 6,000 made-up people in a file as offices have them. ``python messy_people.py [FOLDER]``."""

from __future__ import annotations

import random
import sys
from datetime import date, timedelta
from pathlib import Path

HEAD = "PersNr;Geschl;Geb_Datum;Ort;Einkommen;Schulabschluss;Kinder;Zufriedenheit"
SEXES = {"weiblich": 30, "w": 12, "W": 4, "Weiblich": 4, "männlich": 31, "m": 13, "M": 4, "divers": 0.1, "k.A.": 2}
TOWNS = {
    "München": 20, "Nürnberg": 11, "Würzburg": 5, "Fürth": 3, "Köln": 15, "Düsseldorf": 9, "Münster": 6, "Bonn": 5,
    "Hamburg": 17, "Lübeck": 5, "Kiel": 4, "Emden": 0.1,
}  # fmt: skip
SCHOOLS = {"Hauptschule": 28, "Realschule": 38, "Abitur": 31, "Promotion": 3}
CHILDREN = {"0": 33, "1": 34, "2": 22, "3": 8, "4": 2, "5": 0.5, "6": 0.1}
CONTENT = {"1": 8, "2": 16, "3": 30, "4": 26, "5": 16, "9": 4}  # 9: no answer


def main(folder: Path) -> None:
    """Write the file: semicolons, cp1252, decimal commas, days first, several words for one thing."""
    draw = random.Random(7)  # noqa: S311 - nothing secret

    def one_of(shares: dict[str, float]) -> str:
        return draw.choices([*shares], [*shares.values()])[0]

    lines = [HEAD]
    for number in range(100_001, 106_001):
        born = date(1936, 1, 1) + timedelta(days=draw.randrange(25_500))
        school = one_of(SCHOOLS)
        income = draw.lognormvariate(7.3 + 0.25 * [*SCHOOLS].index(school), 0.5)
        text = f"{income:,.2f}".translate(str.maketrans(",.", ".,")) if draw.random() > 0.04 else "k.A."
        row = [str(number), one_of(SEXES), f"{born:%d.%m.%Y}", one_of(TOWNS), text, school]
        lines.append(";".join([*row, one_of(CHILDREN), one_of(CONTENT)]))
    (folder / "leute.csv").write_bytes("\r\n".join([*lines, ""]).encode("cp1252"))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
