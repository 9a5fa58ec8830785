"""The experiments of PriView (SIGMOD 2014), in the paper's order."""

from __future__ import annotations

from crosstally_lab.papers.priview import all_methods as priview_all_methods
from crosstally_lab.papers.priview import chains as priview_chains
from crosstally_lab.papers.priview import comparison as priview_comparison
from crosstally_lab.papers.priview import crossover as priview_crossover
from crosstally_lab.papers.priview import designs as priview_designs
from crosstally_lab.papers.priview import methods as priview_methods
from crosstally_lab.papers.priview import other_methods as priview_other_methods
from crosstally_lab.papers.priview import times as priview_times

__all__ = ["EXPERIMENTS"]

EXPERIMENTS = (
    *priview_crossover.EXPERIMENTS,
    *priview_other_methods.EXPERIMENTS,
    *priview_all_methods.EXPERIMENTS,
    *priview_comparison.EXPERIMENTS,
    *priview_methods.EXPERIMENTS,
    *priview_chains.EXPERIMENTS,
    *priview_designs.EXPERIMENTS,
    *priview_times.EXPERIMENTS,
)
