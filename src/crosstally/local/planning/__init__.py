"""Planning: the groups of people and the question that each is asked."""
