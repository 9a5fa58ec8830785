"""What is asked and what it costs: the proof, below strategies and privacy."""
