"""The plan page: what a budget means and what error to expect, before there is a release. It sees no data."""
