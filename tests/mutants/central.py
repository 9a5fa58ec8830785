"""Faults in what is charged and drawn, in what is counted, and in what is said about it."""

from mutants.mutant import Mutant

CENTRAL = (
    # Privacy
    Mutant(
        "query/summed.py",
        "m * max(2 * most, within), m**2 * max(2 * most**2, within**2)",
        "m * max(2 * most, within), m**2 * 2 * most**2",
        "plans/test_measures.py::test_sensitivities_by_hand",
    ),
    Mutant(
        "plans/joint_cost.py",
        "stays, moves = [abs(before - after)], [abs(before), abs(after)]",
        "stays, moves = [0], [abs(before), abs(after)]",  # only the value changes, for free
        "plans/test_measures.py::test_the_joint_cost_of_a_count_and_a_sum_by_hand",
    ),
    Mutant(
        "plans/request.py",
        "(query.along, query.summed, schema.sizes(query.attributes))",
        "(query.along, schema.sizes(query.attributes))",
        "plans/test_measures.py::test_a_sum_is_not_charged_as_a_count_of_the_same_table",
    ),
    Mutant(
        "sources/table_parts.py",
        "has_value = steps < self._measure.size - 1",
        "has_value = steps < self._measure.size",
        "releases/test_amounts.py::test_around_a_centre_and_left_out_by_hand",
    ),
    Mutant(
        "privacy/noise.py",
        'l1_distance(T="i64"), scale=noise.scale)',
        'l1_distance(T="i64"), scale=noise.scale * 1.3)',
        "privacy/test_noise.py::test_noise_has_its_scale_and_no_other",
    ),
    Mutant(
        "privacy/noise.py",
        "if proved > claimed * (1 + _ROUNDING):",
        "if proved > claimed * 2:",
        "privacy/test_noise.py::test_a_cost_below_the_proof_is_refused",
    ),
    Mutant(
        "privacy/noise.py",
        "values.max() < LIMIT)",
        "values.max() < 2 * LIMIT)",
        "privacy/test_noise.py::test_counts_near_the_bounds_are_refused_without_being_told",
    ),
    Mutant(
        "plans/joint_cost.py",
        "return query.picks * noise",
        "return noise",
        "privacy/test_picks.py::test_each_pick_is_paid",
    ),
    Mutant(
        "privacy/noise.py",
        "k=picks, scale",
        "k=1, scale",
        "privacy/test_picks.py::test_picks_have_the_law_of_one_choice_after_another",
    ),
    Mutant(
        "strategies/look.py",
        "penalties=[-math.ceil(least(picks))",
        "penalties=[-math.ceil(least(picks) / 2)",
        "strategies/test_look.py::test_what_it_asks_is_the_formula",
    ),
    Mutant(
        "privacy/measure.py",
        "> plan.own_budget.amount:",
        "> 2 * plan.own_budget.amount:",
        "privacy/test_measure.py::test_nothing_is_charged_when_the_plan_costs_more_than_it_says",
    ),
    Mutant(
        "gaussian_curve.py",
        "_short_above(6 * third / (1 + root))",
        "_short_above(3 * third)",  # that of normal noise
        "privacy/test_gaussian_curve.py::test_adaptive_plans_keep_within_the_curve",
    ),
    Mutant(
        "gaussian_curve.py",
        "_HALF_PI = Fraction(11, 7)",
        "_HALF_PI = Fraction(3, 2)",
        "privacy/test_gaussian_curve.py::test_the_price_of_pure_epsilon_and_of_choices_is_above_that_of_their_trade_off",
    ),
    Mutant(
        "gaussian_curve.py",
        "_series(x.copy_abs(), within)",
        "_series(abs(x), within)",  # rounds to 28 digits
        "privacy/test_gaussian_curve.py::test_the_curve_is_rounded_up_and_hardly_so",
    ),
    Mutant(
        "budget.py",
        "self.amount**2 / 2 if self.pure else self.amount / 2",
        "self.amount**2 / 2 if self.pure else self.amount / 4",
        "privacy/test_mu_accounts.py::test_an_account_of_rho_pays_mu_by_its_rho",
    ),
    Mutant(
        "privacy/ledger.py",
        "if spent + cost <= cap:",
        "if cost <= cap:",
        "privacy/test_ledger.py::test_ten_tenths_fit_one_and_the_eleventh_is_refused",
    ),
    Mutant(
        "pipeline.py",
        "            _rehearse(stage, ledger, key, measured, promise)\n",
        "",
        "test_limits.py::test_what_publishing_refuses_is_refused_before_the_charge",
    ),
    Mutant(
        "releases/file/writer.py",
        "read_header(header_bytes(release), ",
        "max(len(header_bytes(release)), ",
        "test_limits.py::test_a_limit_of_the_docs_is_released_up_to_it_and_refused_beyond_it",
    ),
    # Plans
    Mutant(
        "strategies/recovery.py",
        "given = NoiseKind(kind)",
        "given = kind",
        "test_words.py::test_budgets_of_laplace_noise_do_not_overspend",
    ),
    Mutant(
        "query/queries.py",
        "if l1 >= _MAX_MOVED:",
        "if l1 >= _MAX_MOVED**2:",
        "query/test_kronecker.py::test_a_product_beyond_64_bits_is_refused",
    ),
    Mutant(
        "residuals/variances.py",
        "1 / np.maximum(self.of_sets, 1 / MOST_PRECISION)",
        "1 / self.of_sets",
        "strategies/test_huge_budgets.py::test_every_strategy_releases_with_it",
    ),
    Mutant(
        "budget.py",
        "(2 if self.kind is NoiseKind.GUMBEL else 1) / scale",
        "1 / scale",
        "privacy/test_choice.py::test_it_costs_what_brute_force_and_the_ledger_say",
    ),
    Mutant(
        "plans/joint_cost.py",
        'together = largest * (schema.max_rows if currency == "epsilon" else schema.max_rows**2)',
        "together = largest * schema.max_rows",
        "plans/test_joint_sensitivity.py::test_the_cost_of_cells_and_contrasts_is_the_largest_over_all_neighbours",
    ),
    Mutant(
        "plans/joint_cost.py",
        "    if not schema.may_drop:\n        return together",
        "    if True:\n        return together",
        "plans/test_joint_sensitivity.py::test_the_cost_of_cells_and_contrasts_is_the_largest_over_all_neighbours",
    ),
    Mutant(
        "plans/joint_cost.py",
        'return l1 if currency == "epsilon" else [moved**2 for moved in l1]',
        "return l1",
        "plans/test_joint_sensitivity.py::test_the_cost_of_cells_and_contrasts_is_the_largest_over_all_neighbours",
    ),
    Mutant(
        "budget.py",
        "1 / (2 * scale**2)",
        "1 / (4 * scale**2)",
        "plans/test_linear_cost.py::test_the_cost_is_the_largest_over_all_neighbours",
    ),
    Mutant(
        "plans/linear_cost.py",
        "    if schema.may_drop:\n        distinct",
        "    if False:\n        distinct",
        "plans/test_linear_cost.py::test_the_cost_is_the_largest_over_all_neighbours",
    ),
    Mutant(
        "strategies/strategy.py",
        'spent if currency == "epsilon" else math.sqrt(spent)',
        "spent",
        "plans/test_joint_sensitivity.py::test_under_replacement_requests_spend_the_whole_budget_and_no_more",
    ),
    Mutant(
        "budget.py",
        "return self.amount**2 / 2 if self.pure",
        "return self.amount**2 / 4 if self.pure",
        "test_stages.py::test_stages_of_both_kinds_add_up_in_rho",
    ),
    Mutant(
        "strategies/goal.py",
        "np.log(np.maximum(errors, 1e-300))) / 2)",
        "np.log(np.maximum(errors, 1e-300))))",
        "strategies/test_goal.py::test_the_score_is_the_geometric_mean_of_rms_errors",
    ),
    # Sources
    Mutant(
        "sources/text_files.py",
        "while len(self._rest) < size and not self._is_at_end:",
        "while not self._rest and not self._is_at_end:",
        "sources/test_rows.py::test_a_recoded_text_longer_than_a_block_is_read_whole",
    ),
    Mutant(
        "sources/apart.py",
        'limit_process(int(request["gigabytes"] * 1e9)',
        'limit_process(int(request["gigabytes"] * 1e12)',
        "sources/test_apart.py::test_the_limits_are_those_that_are_set",
    ),
    Mutant(
        "platform_files.py",
        "new.unlink(missing_ok=True)",
        "new.exists()",
        "cli/test_outputs.py::test_an_output_that_fails_leaves_the_old_file",
    ),
    Mutant(
        "sources/counts.py",
        "return order[rank < most]",
        "return order[rank <= most]",
        "sources/test_units.py::test_at_most_the_bound_of_each_unit",
    ),
    Mutant(
        "sources/counts.py",
        "else self.unit.max_rows)",
        "else self.unit.max_rows + 1)",
        "sources/test_units.py::test_at_most_the_bound_of_each_unit",
    ),
    Mutant(
        "sources/counts.py",
        "self._schema.parts // units.astype(np.int64)",
        "-(-self._schema.parts // units.astype(np.int64))",
        "sources/test_units.py::test_no_number_of_rows_counts_more_than_once",
    ),
    Mutant(
        "sources/counts.py",
        "self._rows += int(weights.sum())",
        "self._rows += rows",
        "sources/test_grouped_query.py::test_grouped_rows_give_the_counts_of_all",
    ),
    Mutant(
        "sources/parts.py",
        "== self.number - 1)",
        "<= self.number - 1)",
        "sources/test_parts.py::test_every_share_has_rows_and_no_person_is_in_two",
    ),
    # Residuals
    Mutant(
        "residuals/variances.py",
        "(parts / variances)[found]",
        "(parts * variances)[found]",
        "residuals/test_variances.py::test_by_hand",
    ),
    Mutant(
        "residuals/combining.py",
        "own / self._own_variances, len(self.keys))",
        "own / self._own_variances**2, len(self.keys))",
        "residuals/test_combine.py::test_combining_is_dense_generalised_least_squares",
    ),
    Mutant(
        "residuals/axes.py",
        "tau = 1 / float(inverse.sum())",
        "tau = 1 / float(np.trace(inverse))",
        "residuals/test_axes.py::test_the_basis_is_what_the_docstring_says",
    ),
    Mutant(
        "residuals/mixed.py",
        "+= weight * self._grams[way]",
        "+= self._grams[way]",
        "residuals/test_mixed.py::test_combining_is_generalised_least_squares",
    ),
    # Answers
    Mutant(
        "answers/uncertainty.py",
        "stdtrit(freedom, (1 + level) / 2)",
        "stdtrit(freedom, level)",
        "answers/test_intervals.py::test_ends_by_hand",
    ),
    Mutant(
        "answers/uncertainty.py",
        "low = np.floor(np.maximum(low, 0.0) + slack)",
        "low = np.ceil(np.maximum(low, 0.0) + slack)",
        "answers/test_intervals.py::test_ends_by_hand",
    ),
    Mutant(
        "answers/intervals.py",
        "np.maximum(stack[0], answer) + 1",
        "stack[0] + 1",
        "answers/test_intervals.py::test_a_large_answer_errs_like_large_cells",
    ),
    Mutant(
        "answers/noise_sums.py",
        "(1 - level) * (1 + ratio) / 2",
        "(1 - level) * (1 + ratio)",
        "answers/test_noise_sums.py::test_one_discrete_laplace_by_hand",
    ),
    # Strategies
    Mutant(
        "strategies/view_shares.py",
        "bounded(task.budget.amount / sensitivity.l1, power=2) ** 2 / 2, 2)",
        "bounded(task.budget.amount / sensitivity.l1, power=2) ** 2, 2)",
        "strategies/test_two_stage_solvers.py::test_what_the_whole_budget_buys_for_one_table",
    ),
    Mutant(
        "strategies/water_filling.py",
        "(middle, high) if excess(middle) > 0 else (low, middle)",
        "(middle, high) if excess(middle) > 1 else (low, middle)",
        "strategies/test_two_stage_solvers.py::test_water_filling_is_the_optimum",
    ),
    Mutant(
        "strategies/two_stage.py",
        "_MOST_REGRET * laplace if laplace < gaussian",
        "_MOST_REGRET * gaussian if laplace < gaussian",
        "strategies/test_two_stage.py::test_one_way_tables_have_at_most_twice_the_error_of_the_best_noise_for_them",
    ),
    Mutant(
        "strategies/two_stage.py",
        "if most is not None and _one_way_error(goal, already + bought) > most:",
        "if most is not None and _one_way_error(goal, already + bought) > 9 * most:",
        "strategies/test_two_stage.py::test_one_way_tables_have_at_most_twice_the_error_of_the_best_noise_for_them",
    ),
    # Trees of SQL
    Mutant(
        "sql_trees.py",
        "    for node in tree.walk():",
        "    for node in ():",
        "sql/test_random_selects.py::test_random_selects_are_refused_or_answered_as_the_rows_answer",
    ),
    Mutant(
        "sql_trees.py",
        "if value is not None and value != [] and argument not in understood:",
        "if False:",
        "sql/test_random_selects.py::test_what_is_not_understood_is_named",
    ),
    Mutant(
        "sql/select_statement.py",
        "return _leaf(node, schema, not negated)\n    if isinstance(node, exp.Is)",
        "return _leaf(node, schema, negated)\n    if isinstance(node, exp.Is)",
        "sql/test_random_selects.py::test_random_selects_are_refused_or_answered_as_the_rows_answer",
    ),
    Mutant(
        "sql/evaluate.py",
        "known = ~(np.isnan(left) | np.isnan(right))",
        "known = np.ones(len(left), np.bool_)",
        "sql/test_random_selects.py::test_random_selects_are_refused_or_answered_as_the_rows_answer",
    ),
    Mutant(
        "sql/evaluate.py",
        "cut = inner.order or inner.limit is not None or inner.offset",
        "cut = False",
        "sql/test_random_selects.py::test_what_is_not_understood_is_named",
    ),
    Mutant(
        "sources/databases.py",
        "query = checked.text",
        "query = database.query",
        "sources/test_databases.py::test_a_database_runs_what_was_checked_and_not_what_was_written",
    ),
    Mutant(
        "sources/databases.py",
        "if _only_row(execute, repeats)[0] != 0:",
        "if False:",
        "sources/test_joins.py::test_a_public_table_with_repeats_is_refused",
    ),
    Mutant(
        "sources/one_select.py",
        "if not meant & set(columns):",
        "if False:",
        "sources/test_joins.py::test_postgresql_takes_no_aggregate_for_a_column",
    ),
    Mutant(
        "sources/one_select.py",
        'if kind == "In" and any(',
        'if kind == "In" and False and any(',
        "sources/test_joins.py::test_one_row_of_another_table_changes_no_thousands",
    ),
    Mutant(
        "sources/one_select.py",
        '"this expressions": "In",',
        '"this expressions field": "In",',
        "sources/test_joins.py::test_one_row_of_another_table_changes_no_thousands",
    ),
    Mutant(
        "sources/joins.py",
        "if seen and not (unit is not None and",
        "if seen and False and not (unit is not None and",
        "sources/test_joins.py::test_a_join_by_anything_but_the_id",
    ),
    Mutant(
        "sources/joins.py",
        "return of_people  # a public",
        "return True  # a public",
        "sources/test_joins.py::test_a_join_by_anything_but_the_id",
    ),
    Mutant(
        "sources/joins.py",
        "sure |= set() if side else {source.name}",
        "sure |= {source.name}",
        "sources/test_joins.py::test_a_join_by_anything_but_the_id",
    ),
    Mutant(
        "sources/joins.py",
        "if not seen and side:",
        "if False:",
        "sources/test_joins.py::test_what_public_tables_do_not_excuse",
    ),
    Mutant(
        "sources/table_objects.py",
        "if name not in _POLARS:",
        "if False:",
        "sources/test_lazy_plans.py::test_lazy_frames_that_mix_rows",
    ),
    Mutant(
        "sources/table_objects.py",
        "frame._ldf.with_optimizations(polars.QueryOptFlags.none()._pyoptflags).visit()",
        "frame._ldf.visit()",
        "sources/test_lazy_plans.py::test_lazy_frames_that_mix_rows",
    ),
    Mutant(
        "sources/table_objects.py",
        "if name not in _SPARK.split():",
        "if False:",
        "sources/test_spark.py::test_a_plan_that_mixes_rows_is_refused",
    ),
    Mutant(
        "sources/table_objects.py",
        "        _check_rows(self._rows, scan.unit)\n",
        "",
        "sources/test_lazy_plans.py::test_relations_that_mix_rows",
    ),
)
