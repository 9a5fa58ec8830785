"""Faults in what past answers say about new questions."""

from mutants.mutant import Mutant

HISTORY = (
    Mutant(
        "notebook/history/likelihood.py",
        "share * (1 - share) * (mean_above + mean_below) ** 2",
        "share * (1 - share) * (mean_above - mean_below) ** 2",
        "notebook/history/test_estimates.py::test_the_law_of_laplace_noise_and_a_normal_belief",
    ),
    Mutant(
        "notebook/history/likelihood.py",
        "without = past.answers - solution.weights / inverse",
        "without = past.answers",
        "notebook/history/test_estimates.py::test_one_answer_with_laplace_noise_is_believed_as_integration_says",
    ),
    Mutant(
        "notebook/history/held_out.py",
        "np.mean(left**2 - solution.past.noise)",
        "np.mean(left**2)",
        "notebook/history/test_estimates.py::test_errors_estimated_from_noisy_answers",
    ),
    Mutant(
        "notebook/history/held_out.py",
        "gaps**2 - noise + 2 * noise * own",
        "gaps**2 - noise + noise * own",
        "notebook/history/test_estimates.py::test_errors_estimated_from_noisy_answers",
    ),
    Mutant(
        "notebook/history/held_out.py",
        "(past.answers[test] - estimates) ** 2 - past.noise[test]",
        "(past.answers[test] - estimates) ** 2",
        "notebook/history/test_estimates.py::test_errors_estimated_from_noisy_answers",
    ),
    Mutant(
        "notebook/history/likelihood.py",
        "max(float(inside[columns].sum()), 0.0) / variance",
        "max(float(inside[columns].sum()), 0.0)",
        "notebook/history/test_estimates.py::test_what_answers_show_less_what_is_expected_is_twice_the_slope_of_the_likelihood",
    ),
    Mutant(
        "notebook/history/likelihood.py",
        "float((product * product.T).sum()) * solution.variances[each.part] ** 2",
        "float((product * product.T).sum()) * solution.variances[each.part]",
        "notebook/history/test_loadings.py::test_how_much_answers_tell_of_each_variance",
    ),
    Mutant(
        "notebook/history/likelihood.py",
        "(expected + less + rest)) ** _POWER",
        "(expected + less + rest)) ** 0",
        "notebook/history/test_estimates.py::test_variances_are_learned",
    ),
    Mutant(
        "notebook/history/components.py",
        "block = np.diag(past.noise[rows])",
        "block = 2 * np.diag(past.noise[rows])",
        "notebook/history/test_estimates.py::test_both_paths_are_ridge_regression",
    ),
    Mutant(
        "notebook/history/components.py",
        "-0.5 * (self._log_determinant + float(",
        "-0.5 * (-self._log_determinant + float(",
        "notebook/history/test_estimates.py::test_both_paths_are_ridge_regression",
    ),
    Mutant(
        "notebook/history/components.py",
        "low_rank -= solved.T @ self.scaled",
        "low_rank += solved.T @ self.scaled",
        "notebook/history/test_estimates.py::test_a_variance_for_each_set_of_attributes",
    ),
    Mutant(
        "notebook/history/components.py",
        "inverse - correction @ correction.T",
        "inverse + correction @ correction.T",
        "notebook/history/test_estimates.py::test_errors_estimated_from_noisy_answers",
    ),
    Mutant(
        "notebook/history/components.py",
        "return self.past.answers - self.past.noise * self.weights",
        "return self.past.answers + self.past.noise * self.weights",
        "notebook/history/test_estimates.py::test_one_answer_with_laplace_noise_is_believed_as_integration_says",
    ),
    Mutant(
        "notebook/history/components.py",
        "noise - noise**2 * self.inverse_diagonal",
        "noise",
        "notebook/history/test_estimates.py::test_one_answer_with_laplace_noise_is_believed_as_integration_says",
    ),
    Mutant(
        "notebook/history/bundles.py",
        "if part in prior.known_variances else np.sqrt(p)",
        "if part in prior.known_variances else p",
        "notebook/history/test_estimates.py::test_both_paths_are_ridge_regression",
    ),
    Mutant(
        "notebook/history/prior.py",
        "np.maximum(shares(counts), _FLOOR / len(counts))",
        "shares(counts)",
        "notebook/history/test_estimates.py::test_priors",
    ),
    Mutant(
        "notebook/history/plausible.py",
        "return pool.scale.mean() * math.exp(_OWN**2 / 2)",
        "return pool.scale.variance",
        "notebook/history/test_bars.py::test_sets_that_nobody_asked_about_may_stray_as_far_as_a_level_and_their_own_factor_say",
    ),
    Mutant(
        "notebook/history/plausible.py",
        "(density @ np.exp(grid)) / density.sum()",
        "(density @ np.exp(grid)) / len(density)",
        "notebook/history/test_bars.py::test_the_mean_of_a_level",
    ),
    Mutant(
        "notebook/history/plausible.py",
        "weight=(1 - _DOMINANT) * weight / total",
        "weight=weight / total",
        "notebook/history/test_bars.py::test_one_answer_tells_little_of_how_far_rows_stray",
    ),
    Mutant(
        "notebook/history/error_law.py",
        "np.square(values).mean(axis=0) - explained",
        "np.square(values).mean(axis=0)",
        "notebook/history/test_error_law.py::test_what_past_questions_leave_unexplained",
    ),
    Mutant(
        "notebook/history/error_law.py",
        "gaps[:, None] - np.array([_quantiles(each) for each in answers])",
        "gaps[:, None]",
        "notebook/history/test_error_law.py::test_the_factor_of_answers_left_out",
    ),
)
