"""Questions to a table over the years: paid and remembered, or answered for free from what is known."""
