"""What each group of people is asked."""
