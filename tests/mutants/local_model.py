"""Faults in the local model: odds and ratios that the promise rests on, variances, and how estimates are shrunk."""

from mutants.mutant import Mutant

LOCAL = (
    # The promise: probabilities of answers, and what a device checks of them
    Mutant(
        "local/oracles/answers.py",
        "return Fraction(math.floor(total * _STEPS), _STEPS)",
        "return Fraction(math.ceil(total * _STEPS), _STEPS)",
        "local/test_oracles.py::test_odds_stay_just_below_the_exponential",
    ),
    Mutant(
        "local/oracles/answers.py",
        "Fraction(math.floor(probability * resolution), resolution)",
        "Fraction(math.ceil(probability * resolution), resolution)",
        "local/test_oracles.py::TestRandomisedResponse::test_no_ratio_exceeds_e_to_the_epsilon",
    ),
    Mutant(
        "local/oracles/randomised_response.py",
        "odds / (odds + math.prod(sizes) - 1)",
        "odds / (odds + math.prod(sizes) - 2)",
        "local/test_oracles.py::TestRandomisedResponse::test_no_ratio_exceeds_e_to_the_epsilon",
    ),
    Mutant(
        "local/oracles/randomised_response.py",
        "odds_below(epsilon / len(sizes))",
        "odds_below(epsilon)",
        "local/test_oracles.py::TestEachAttribute::test_no_ratio_exceeds_e_to_the_epsilon",
    ),
    Mutant(
        "local/client/draws.py",
        "return own * (1 - other) / (other * (1 - own)) if",
        "return own / other if",
        "local/test_client.py::test_ratios_that_the_device_works_out",
    ),
    Mutant(
        "local/client/draws.py",
        "return math.prod(ratios, start=Fraction(1)) if",
        "return max(ratios) if",
        "local/test_client.py::test_ratios_that_the_device_works_out",
    ),
    Mutant(
        "local/client/draws.py",
        "return other + (other >= value)",
        "return other + (other > value)",
        "local/test_client.py::test_answers_are_those_of_the_vectors",
    ),
    Mutant(
        "local/client/reporting.py",
        "if spent > cap:",
        "if spent > 2 * cap:",
        "local/test_client.py::test_the_lifetime_cap_covers_all_protocols_of_a_device",
    ),
    # What many answers say, and how surely
    Mutant(
        "local/oracles/oracle.py",
        "return (total - oracle.support_variance / cells) / (",
        "return total / (",
        "local/test_oracles.py::TestUnaryEncoding::test_cells_are_unbiased_and_vary_as_they_say",
    ),
    Mutant(
        "local/oracles/oracle.py",
        "(frequency * true * (1 - true) + (1 - frequency)",
        "(frequency * true * (1 - true) + frequency",
        "local/test_oracles.py::test_unary_encoding_and_hashing_have_the_papers_variance",
    ),
    Mutant(
        "local/oracles/hadamard_response.py",
        "(self.keep * (half - 1) + (1 - self.keep) * half)",
        "(self.keep * half + (1 - self.keep) * half)",
        "local/test_oracles.py::TestHadamardResponse::test_cells_are_unbiased_and_vary_as_they_say",
    ),
    Mutant(
        "local/oracles/hadamard_response.py",
        "(signs - signs.mean(axis=-1, keepdims=True)) * (order - 1) / order",
        "(signs - signs.mean(axis=-1, keepdims=True))",
        "local/test_oracles.py::TestResidualBit::test_residuals_are_unbiased_and_vary_as_they_say",
    ),
    Mutant(
        "local/oracles/local_hashing.py",
        "others = (squares - own) / (g - 1)",
        "others = (squares - own) / g",
        "local/test_oracles.py::test_the_variance_of_how_many_cells_are_supported",
    ),
    Mutant(
        "local/estimate/report_counts.py",
        "return (self.total - self.people) / (self.total - 1) if self.total > 1 else 0.0",
        "return 0.0",
        "local/test_collector.py::test_the_variance_of_cells_by_hand",
    ),
    Mutant(
        "local/estimate/report_counts.py",
        "noise = (cells - 1) * response / sample.people",
        "noise = 0.0",
        "local/test_collector.py::test_the_variance_of_cells_by_hand",
    ),
    Mutant(
        "local/influence.py",
        "np.minimum(1.0, 2 * len(reports) * tails)",
        "np.minimum(1.0, tails)",
        "local/test_tokens.py::test_how_likely_sizes_are_by_hand",
    ),
    Mutant(
        "local/influence.py",
        "out[number] = (most - lowest, highest - least)",
        "out[number] = (most - highest, lowest - least)",
        "local/test_tokens.py::test_no_crowd_moves_a_cell_further_than_is_said",
    ),
    # How estimates are drawn towards what is expected
    Mutant(
        "local/collector.py",
        '"independence": shrunk_measurements,',
        '"independence": lambda _, measured: Shrunk(tuple(measured), {}),',
        "local/test_collector.py::test_shrinking_changes_little_where_reports_are_clear_and_much_where_not",
    ),
    Mutant(
        "local/collector.py",
        '"expected": expected_measurements,',
        '"expected": lambda _, measured: Shrunk(tuple(measured), {}),',
        "local/test_posterior.py::test_the_error_is_a_fraction_of_that_without",
    ),
    Mutant(
        "local/estimate/pair_shrinkage.py",
        "trust = {one: squares[len(one)] / (squares[len(one)] + variances[one]) for one in moments}",
        "trust = dict.fromkeys(moments, 1.0)",
        "local/test_posterior.py::test_a_pair_is_drawn_towards_independence_by_its_own_noise",
    ),
    Mutant(
        "local/estimate/pair_shrinkage.py",
        "float((block**2).sum()) / v - block.size",
        "float((block**2).sum()) / v",
        "local/test_posterior.py::test_a_pair_is_drawn_towards_independence_by_its_own_noise",
    ),
    Mutant(
        "local/estimate/pair_shrinkage.py",
        "own = [(block, variances[names]) for names, block in moments.items() if len(names) == size]",
        "own = [(block, variances[names]) for names, block in moments.items()][:1]",
        "local/test_posterior.py::test_pairs_are_drawn_together_by_the_mean_of_their_squares",
    ),
    Mutant(
        "local/estimate/pair_shrinkage.py",
        "variances[one] * trust.get(one, 1.0) * _cell",
        "variances[one] * _cell",
        "local/test_posterior.py::test_a_pair_is_drawn_towards_independence_by_its_own_noise",
    ),
    Mutant(
        "local/estimate/expectation.py",
        "return np.asarray(square / (square + variances))",
        "return np.ones_like(square)",
        "local/test_posterior.py::test_what_three_attributes_show_is_trusted_as_far_as_it_is_more_than_noise",
    ),
    Mutant(
        "local/estimate/expectation.py",
        "((beyond**2).mean(axis=1) - variances)",
        "(beyond**2).mean(axis=1)",
        "local/test_posterior.py::test_what_three_attributes_show_is_trusted_as_far_as_it_is_more_than_noise",
    ),
    Mutant(
        "local/estimate/expectation.py",
        "np.minimum(most, 1.0).reshape",
        "np.ones_like(most).reshape",
        "local/test_posterior.py::test_changes_end_where_a_cell_would_be_negative",
    ),
    Mutant(
        "local/estimate/posterior.py",
        "trust = widths**2 / (widths**2 + variances[..., None])",
        "trust = np.ones_like(widths)",
        "local/test_posterior.py::test_clear_reports_are_believed_and_hopeless_ones_leave_independence",
    ),
    Mutant(
        "local/estimate/posterior.py",
        "law = (shares.sum(axis=0) + _PAIRS_ADDED * START) / (len(shares) + _PAIRS_ADDED)",
        "law = START",
        "local/test_posterior.py::test_a_law_follows_the_pairs",
    ),
    Mutant(
        "local/estimate/posterior.py",
        "out[own] = fitted_law(likelihood[~own], START, _STEPS_OF_PARTS)",
        "out[own] = fitted_law(likelihood, START, _STEPS_OF_PARTS)",
        "local/test_posterior.py::test_the_law_for_a_table_is_that_of_the_others",
    ),
    Mutant(
        "local/estimate/posterior.py",
        "return np.asarray(left + max(beyond, 0.0) * noise)",
        "return left",
        "local/test_posterior.py::test_bars_grow_where_estimates_moved_further_than_they_allow",
    ),
    Mutant(
        "local/estimate/posterior.py",
        "return np.asarray(weight @ np.log(likelihood + _TINY))",
        "return np.zeros(len(tried))",
        "local/test_posterior.py::test_pairs_of_rare_values_tell_their_frequencies",
    ),
)
