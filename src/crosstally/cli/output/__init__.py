"""How commands speak: to people and to programs."""
