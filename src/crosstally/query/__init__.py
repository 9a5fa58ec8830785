"""What can be asked: queries, conditions on rows, and the one grammar in which conditions are written."""
