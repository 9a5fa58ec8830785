"""Synthetic data from the tables of a release; no row is a real person."""

from crosstally.synthesis.row_fit import repeated
from crosstally.synthesis.synthetic_data import SyntheticData, distances, in_full, in_groups, narrowness, sampled_rows

__all__ = ["SyntheticData", "distances", "in_full", "in_groups", "narrowness", "repeated", "sampled_rows"]
