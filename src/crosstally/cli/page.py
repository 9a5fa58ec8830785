"""``crosstally page``: write one page about a release, to give to others."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated

import crosstally as ct
from crosstally.cli.options import Force, Quiet, ReleaseArgument, check_output, option
from crosstally.cli.output.screen import people
from crosstally.platform_files import write_text, writing

EXAMPLES = ("crosstally page people.release.parquet -o people.html",)


def page(
    release: ReleaseArgument,
    *,
    output: Annotated[Path, option("FILE", "The page to write, such as people.html.", "--output", "-o")],
    quiet: Quiet = False,
    force: Force = False,
) -> None:
    """Write one self-contained page about a release: charts, associations, errors, the privacy promise."""
    from crosstally.browser.explorer.release_page import release_page

    check_output(output, force=force)
    opened = ct.open_release(release)
    page = release_page(opened, digest=hashlib.sha256(release.read_bytes()).hexdigest(), file_name=release.name)
    with writing(output):
        write_text(output, page)
    people(quiet=quiet).say(f"{str(output)!r} is one file that loads nothing: open it in a browser, or send it.")
