"""The steward's page about a schema: confidential, for this machine and this person alone."""
