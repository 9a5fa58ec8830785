"""The commands that the laboratory adds: each module has a function of its own name, and its examples."""
