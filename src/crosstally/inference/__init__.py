"""From measurements to one consistent estimate."""
