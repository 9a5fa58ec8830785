"""Covering designs: few views that hold every pair, triple or quadruple of attributes. They never see data."""

from crosstally.designs.design import covering_design, covering_views, design_if_known

__all__ = ["covering_design", "covering_views", "design_if_known"]
