"""The likely meaning of a column, from its name and values: proposals that a steward reviews."""
