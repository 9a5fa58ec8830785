"""What a steward sees before a release: the review of a schema, for one person alone, and the plan page."""
