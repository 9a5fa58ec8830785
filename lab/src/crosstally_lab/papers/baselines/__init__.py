"""What PriView is compared with (section 3), simulated for the asked tables only.

Noise comes from the numpy generator given, as continuous Laplace noise: nothing here is a release, and nothing that it
returns may be published. (MWEM alone goes through the library's own strategy, ledger and noise.) All baselines are told
the true number of rows, and negative cells are removed from what they answer: both help them. Each function says what
was simplified.
"""

from __future__ import annotations

from crosstally_lab.papers.baselines.cuboids import chosen_cuboids, data_cubes, margin
from crosstally_lab.papers.baselines.matrix_mechanism import MatrixStrategy, eigen_design, low_rank
from crosstally_lab.papers.baselines.nearest_coefficients import fourier_program
from crosstally_lab.papers.baselines.noisy_tables import (
    corrected,
    direct,
    flat,
    flat_distance,
    fourier,
    fourier_coefficients,
    uniform,
)
from crosstally_lab.papers.baselines.polynomials import Polynomial, learning
from crosstally_lab.papers.baselines.weights import mwem, mwem_rounds

__all__ = [
    "MatrixStrategy",
    "Polynomial",
    "chosen_cuboids",
    "corrected",
    "data_cubes",
    "direct",
    "eigen_design",
    "flat",
    "flat_distance",
    "fourier",
    "fourier_coefficients",
    "fourier_program",
    "learning",
    "low_rank",
    "margin",
    "mwem",
    "mwem_rounds",
    "uniform",
]
