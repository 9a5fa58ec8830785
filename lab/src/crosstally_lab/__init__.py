"""The laboratory of crosstally: experiments, comparisons, calibration and the audit. The product imports none of it."""
