"""Synthetic rows from the tables of a release; none of them is a real person."""

from crosstally.synthesis.microdata import SyntheticData, distances, narrowness, sampled_rows

__all__ = ["SyntheticData", "distances", "narrowness", "sampled_rows"]
