"""Every planted fault still has its place in the package and its test; that they are caught is seen by make mutants."""

import ast
import re
from collections import Counter

import pytest

from mutants.drawn import drawn
from mutants.mutant import SOURCE, TESTS, Mutant
from mutants.table import MUTANTS


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_fault_applies_and_its_test_exists(mutant: Mutant) -> None:
    text = (SOURCE / mutant.file).read_text(encoding="utf-8")
    changed = mutant.applied(text)
    assert changed != text
    compile(changed, mutant.file, "exec")
    file, name = mutant.test.split("::")[:2]
    assert re.search(rf"^(def|class) {name}\(", (TESTS / file).read_text(encoding="utf-8"), re.MULTILINE)


def test_there_are_enough_in_each_folder() -> None:
    number = Counter(mutant.file.split("/")[0] for mutant in MUTANTS)
    assert number["local"] >= 15
    assert number["notebook"] >= 10
    assert number["inference"] >= 10
    assert number.total() == len({(each.file, each.old, each.new) for each in MUTANTS}) >= 60


def test_a_text_that_is_not_there_once_is_refused() -> None:
    mutant = Mutant("a.py", "x", "y", "test_a.py::test_a")
    assert mutant.applied("x = 1") == "y = 1"
    for text in ("a = 1", "x = x"):
        with pytest.raises(ValueError, match=r"a\.py must hold 'x' once"):
            mutant.applied(text)


def test_drawn_faults_change_one_operator() -> None:
    found = drawn(19, 20)
    for each in found:
        text = (SOURCE / each.file).read_text(encoding="utf-8")
        changed = each.applied(text)
        compile(changed, each.file, "exec")
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(text))
    assert found == drawn(19, 20)
