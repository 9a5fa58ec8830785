"""The k-marginal score and the board, by hand."""

import numpy as np
import pytest

from benchmarks.accuracy import board
from benchmarks.accuracy.k_marginal import Scorer, density_edges, largest_values


def columns(**values: list[str]) -> dict[str, np.ndarray]:
    return {name: np.array(each) for name, each in values.items()}


def test_equal_rows_have_the_highest_score_and_disjoint_ones_none() -> None:
    rows = columns(SEX=["1", "2", "2"], MSP=["N", "1", "1"])
    scorer = Scorer(rows, ("SEX", "MSP"))
    assert scorer.score(rows) == 1000
    assert scorer.score(columns(SEX=["3"], MSP=["1"])) == 0


def test_a_pair_is_crossed_with_the_area_and_shares_are_of_all_rows() -> None:
    """Two areas of two rows; without areas the tables are equal, with them half of the rows are elsewhere."""
    own = columns(PUMA=["a", "a", "b", "b"], SEX=["1", "2", "1", "2"], MSP=["1", "1", "1", "1"])
    other = columns(PUMA=["a", "a", "b", "b"], SEX=["1", "1", "2", "2"], MSP=["1", "1", "1", "1"])
    assert Scorer(own, ("SEX", "MSP")).score(other) == 1000
    assert Scorer(own, ("PUMA", "SEX", "MSP")).score(other) == 500


def test_numbers_are_cut_at_the_excerpts_own_twentieths() -> None:
    """Forty ages 0 to 39, of ranks 1 to 40: bin 0 has rank 1 alone, bin 1 ranks 2 and 3 (20 x 3/40 = 1.5);
    the last has ranks 38 to 40, ages 37 to 39."""
    ages = np.array([str(age) for age in range(40)])
    tops = largest_values(ages)
    assert tops.tolist() == [0, *range(2, 37, 2), 39]
    rows = columns(AGEP=ages.tolist(), SEX=["1"] * 40)
    scorer = Scorer(rows, ("AGEP", "SEX"))
    within = [str(min(age + 1, 39)) if age % 2 else str(age) for age in range(40)]  # odd ages: a bin's lower value
    assert scorer.score(columns(AGEP=within, SEX=["1"] * 40)) == 1000
    assert scorer.score(columns(AGEP=["99"] * 40, SEX=["1"] * 40)) == pytest.approx(500 * (2 - 37 / 40 - 37 / 40))


def test_what_does_not_apply_and_the_top_code_are_bins_of_their_own() -> None:
    values = np.array(["N", "0", "10", "20", "501"])
    assert largest_values(values, top=501).tolist() == [0, 10, 20, 501]
    rows = columns(POVPIP=values.tolist(), SEX=["1"] * 5)
    given = columns(POVPIP=["N", "0", "10", "20", "N"], SEX=["1"] * 5)
    assert Scorer(rows, ("POVPIP", "SEX")).score(given) == pytest.approx(500 * (2 - 2 / 5))


def test_density_has_thirteen_public_inner_edges() -> None:
    edges = density_edges()
    assert edges[0] == 150
    assert len(edges) == 13
    assert edges[1] == pytest.approx(10 ** (1 + (np.log10(53364.7) - 1) * 8 / 20))


def test_rows_come_back_within_their_bins_and_labels_as_they_are() -> None:
    rows = columns(AGEP=["0", "44", "99"], MSP=["N", "1", "6"], PINCP=["N", "-5", "60000"])
    schema = board.schema_of(rows, ("AGEP", "MSP", "PINCP"))
    assert schema["PINCP"].missing
    edges = board.EDGES
    codes = np.array([[0, 0, len(edges["PINCP"]) - 1], [8, 1, 0], [len(edges["AGEP"]) - 2, 2, 15]])
    made = board.synthetic_columns(schema, codes, np.random.default_rng(1))
    assert made["MSP"].tolist() == ["1", "6", "N"]
    assert made["PINCP"][0] == "N"
    assert -20_000 <= int(made["PINCP"][1]) < 0
    assert 40 <= int(made["AGEP"][1]) < 45


@pytest.mark.parametrize(
    ("text", "delta"), [("10^(-5)", "1e-05"), ("1/n^2, where n is the data size", None), ("", None)]
)
def test_deltas_of_the_board_are_read(text: str, delta: str | None) -> None:
    assert board.delta_of(text) == delta
