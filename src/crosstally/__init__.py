"""Contingency tables about people, published under differential privacy."""
