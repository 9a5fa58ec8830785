"""Compiled inner loops: arrays in, arrays out."""

from crosstally.kernels.compiled_code import find_place

find_place()
