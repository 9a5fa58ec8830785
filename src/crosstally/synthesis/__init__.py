"""Rows made up from the tables of a release: they look like people, and none is a real person."""

from crosstally.synthesis.microdata import SyntheticData, distances, narrowness, sampled_rows

__all__ = ["SyntheticData", "distances", "narrowness", "sampled_rows"]
