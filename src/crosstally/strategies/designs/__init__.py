"""Covering designs: few views of a size that hold every pair, triple or quadruple of attributes. Public, no data."""

