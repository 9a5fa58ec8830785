"""Tables of whole numbers that agree with each other."""
