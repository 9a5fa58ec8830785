"""What a column is likely to be, from its name and its values: proposals that a steward reviews."""
