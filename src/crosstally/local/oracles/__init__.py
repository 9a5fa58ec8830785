"""Oracles: how a device perturbs one answer, and what a collector makes of many."""
