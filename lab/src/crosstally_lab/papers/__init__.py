"""Experiments: generated data, metrics, and the papers' figures."""
