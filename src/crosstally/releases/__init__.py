"""A release: what was measured, what it says, and the promise under which it may be published."""
