"""The audit: crosstally against its own promise, in four parts, on made-up tables alone.

``exact`` works out the privacy loss of every strategy, oracle and question from definitions that stand in this folder.
``sampled`` plays a guessing game against the noise that is really drawn. ``end_to_end`` makes releases of neighbouring
rows and compares everything about them that is not noise. ``replay`` runs neighbours with the noisy answers of each
other: everything published must be the same, and the exact answers may differ by no more than the charge. Faults and
fuzzed files have their place beside these four.
"""

from crosstally_lab.audit.findings import Finding, report_text

__all__ = ["Finding", "report_text"]
