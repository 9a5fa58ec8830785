"""From an estimate to the answer to one question."""
