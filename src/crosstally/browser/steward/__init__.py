"""Pages for a steward before a release: the schema review, for a single person, and the plan page."""
