"""Outcomes that no change of the code's form may move, and the file that holds them."""
