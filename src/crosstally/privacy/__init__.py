"""The door: exact tables in, measurements out, every spend in the ledger."""
