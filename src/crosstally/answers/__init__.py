"""From an estimate to the answer to one question: a labelled table with its uncertainty, to compute with."""
