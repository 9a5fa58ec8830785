"""Faults in how measurements become an estimate, and in what is known of its errors."""

from mutants.mutant import Mutant

INFERENCE = (
    Mutant(
        "inference/risk.py",
        "along = _ratio(q22 - q12 - g[0] + g[1],",
        "along = _ratio(q22 - q12 + g[0] - g[1],",
        "inference/test_risk.py::test_the_best_weights_are_those_of_a_slow_search",
    ),
    Mutant(
        "inference/risk.py",
        "(found[i] - smooth - noise)[chosen]",
        "(found[i] - smooth + noise)[chosen]",
        "inference/test_risk.py::test_estimated_and_true_risk_agree_within_15_percent",
    ),
    Mutant(
        "inference/risk.py",
        "gains = [q[0] + 2 * g[0], q[2] + 2 * g[1],",
        "gains = [q[0] + g[0], q[2] + g[1],",
        "inference/test_risk.py::test_estimated_and_true_risk_agree_within_15_percent",
    ),
    Mutant(
        "inference/risk.py",
        "freedom = np.maximum(1 - _CHOICE / taking_part, 0.0)",
        "freedom = np.ones_like(taking_part)",
        "inference/test_risk.py::test_one_set_drawn_towards_zero_is_the_estimate_of_james_and_stein",
    ),
    Mutant(
        "inference/joint_correction.py",
        "/ np.arange(1, cells.shape[1] + 1)",
        "/ np.arange(2, cells.shape[1] + 2)",
        "inference/test_nonnegativity.py::test_global_by_hand",
    ),
    Mutant(
        "inference/joint_correction.py",
        "limit = float(threshold) + _ROUNDING",
        "limit = _ROUNDING",
        "inference/test_nonnegativity.py::test_only_cells_below_minus_the_threshold_move",
    ),
    Mutant(
        "inference/estimates.py",
        "1 / (combined.variances[group.places[:, -1:]] * group.places.shape[1])",
        "1 / combined.variances[group.places[:, -1:]]",
        "inference/test_estimate.py::test_corrected_views_are_averaged_by_their_precision",
    ),
    Mutant(
        "inference/estimates.py",
        "seen[combined.places([()])[0]] = False",
        "seen[combined.places([()])[0]] = True",
        "inference/test_estimate.py::test_variances_and_total_stay_and_the_correction_is_named",
    ),
    Mutant(
        "inference/joint_correction.py",
        "1 / (variances * orders ** (2 * power))",
        "1 / (variances * orders)",
        "inference/test_joint.py::test_the_program_is_solved",
    ),
    Mutant(
        "inference/joint_correction.py",
        "kept[total] = True",
        "kept[total] = False",
        "inference/test_joint.py::test_one_cell_below_zero_by_hand",
    ),
    Mutant(
        "inference/bootstrap.py",
        "np.log(tails * (1 + ratio) / 2)",
        "np.log(tails / 2)",
        "inference/test_bootstrap_noise.py::test_each_value_has_its_probability",
    ),
    Mutant(
        "inference/bootstrap.py",
        "/ (2 * scale**2))",
        "/ scale**2)",
        "inference/test_bootstrap_noise.py::test_each_value_has_its_probability",
    ),
    Mutant(
        "inference/bootstrap.py",
        "((found - linear.coefficients) ** 2 + 2 * covariances)",
        "((found - linear.coefficients) ** 2 + covariances)",
        "inference/test_bootstrap.py::test_deviations_are_stretched_to_the_risk_that_the_covariance_penalty_estimates",
    ),
    Mutant(
        "inference/bootstrap.py",
        "noise = averages.with_total(noise, 0.0)",
        "pass",
        "inference/test_bootstrap.py::test_a_public_number_of_rows_has_no_noise",
    ),
    Mutant(
        "inference/shrink.py",
        "1 - n / np.maximum(n, each)",
        "1 - 0 * n / np.maximum(n, each)",
        "inference/test_bootstrap.py::test_interactions_that_are_only_noise_vanish_from_the_truth",
    ),
    Mutant(
        "inference/shrink.py",
        "now = model.with_possible_one_ways(blend.of(linear, (now, shrunken)))",
        "now = model.with_possible_one_ways(shrunken)",
        "inference/test_bootstrap.py::test_the_same_coefficients_give_the_same_estimate",
    ),
    Mutant(
        "inference/risk.py",
        "len(cells) / len(some)",
        "0.0",
        "inference/test_shrinkage.py::test_a_mixture_follows_the_cells",
    ),
    Mutant(
        "inference/integers/projection.py",
        "ridge = 1e-10 * max(",
        "ridge = 1e-1 * max(",
        "inference/integers/test_integers.py::test_the_projected_table_is_as_near_as_that_of_another_solver",
    ),
    Mutant(
        "inference/integers/projection.py",
        "if gains[target] <= 1e-9:",
        "if gains[target] <= 1e9:",
        "inference/integers/test_integers.py::test_rows_move_while_that_brings_the_table_nearer",
    ),
    Mutant(
        "kernels/latent_classes.py",
        "got[axis, c] += share",
        "got[axis, c] = share",
        "answers/unmeasured/test_latent_classes.py::test_counts_are_shared_out_like_the_plain_twin",
    ),
)
