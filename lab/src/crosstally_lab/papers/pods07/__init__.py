"""Barak et al. (PODS 2007): the Fourier release."""
