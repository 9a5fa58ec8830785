"""Questions to a table over time: paid and stored, or estimated for free from earlier answers."""
