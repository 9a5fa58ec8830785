"""The residual basis: everything linear about tables, for any cardinalities, without ever building a matrix.

For a table over V and a set B inside V, the residual R_B is the marginal over B, centred along every axis. In each axis
an orthonormal basis of the centred vectors (Helmert's) turns R_B into prod(n_i - 1) *coefficients*, and noise that is
independent with equal variance within a view gives uncorrelated coefficients. So exact generalised least squares over
any measured views is an inverse-variance average, coefficient by coefficient:

``axes``      a table to its coefficients and back, which number stands for which coefficient, and attributes that are
              measured by a matrix: averages in the matrix's own basis
``combine``   measurements to an ``Estimate``: the averages, and their exact variances
``mixed``     attributes that are measured in more than one way: one dense solution for each set of the others
``variances`` the same variances from the noise alone, also before anything is measured
"""

from crosstally.residuals.axes import decompose, rebuild
from crosstally.residuals.combining import Estimate, combine
from crosstally.residuals.variances import Variances

__all__ = ["Estimate", "Variances", "combine", "decompose", "rebuild"]
