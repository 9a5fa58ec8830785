"""CALM (CCS 2018): the local model."""
