"""From the reports to an estimate."""
