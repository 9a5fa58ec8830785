"""The first use after an installation says on stderr that it compiles; later ones and the library do not."""

import os
import subprocess
import sys
from pathlib import Path

LINE = (
    "crosstally: compiling the inner loops for this machine; this first use takes about 20 seconds longer, "
    "later ones do not\n"
)
COMMAND_LINE = "from crosstally.cli.interrupts import tell_of_compiling as tell; tell(); tell(); "
LOAD = "import crosstally.kernels.lookup"
SOMEBODY_ELSES = "; from numba import njit; njit('int64(int64)')(lambda x: x + 1)"


def said(code: str, cache: Path) -> str:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == ""
    return done.stderr


def test_the_first_use_says_so_once_and_later_ones_nothing(tmp_path: Path) -> None:
    assert said(COMMAND_LINE + LOAD, tmp_path) == LINE
    assert said(COMMAND_LINE + LOAD + SOMEBODY_ELSES, tmp_path) == ""


def test_the_library_says_nothing(tmp_path: Path) -> None:
    assert said(LOAD, tmp_path) == ""


def test_main_has_it_said() -> None:
    code = "import logging; from crosstally.cli.app import main; main(['--version'])"
    code += "; assert logging.getLogger('crosstally.kernels').handlers"
    subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
