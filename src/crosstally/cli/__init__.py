"""The command line: one file for each verb. Data goes to stdout, messages for people to stderr."""

from crosstally.cli.app import main

__all__ = ["main"]
