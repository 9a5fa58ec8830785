"""The measuring step: exact tables in, noisy measurements out, every charge in the ledger."""
