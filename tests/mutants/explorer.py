"""Faults in what keeps the explorer from being taken away."""

from mutants.mutant import Mutant

EXPLORER = (
    Mutant(
        "browser/explorer/answering.py",
        "if spent > MOST:",
        "if spent < 0:",
        "browser/explorer/test_solving.py::test_a_statement_pays_for_all_its_tables_together",
    ),
    Mutant(
        "browser/explorer/served.py",
        "if cost > MOST:",
        "if cost < 0:",
        "browser/explorer/test_solving.py::test_what_costs_too_much_is_refused_in_every_form",
    ),
    Mutant(
        "browser/explorer/solver.py",
        "if not task.clients and task.future.cancel()",
        "if task.future.cancel()",
        "browser/explorer/test_solving.py::test_who_leaves_takes_the_answer_from_nobody",
    ),
    Mutant(
        "browser/explorer/solver.py",
        "if time.monotonic() > until or self._resident() > most:",
        "if time.monotonic() > until:",
        "browser/explorer/test_solving.py::test_what_takes_too_much_memory_ends",
    ),
    Mutant(
        "browser/common/site_server.py",
        "        if self.is_waiting:\n            self.drop()",
        "        return",
        "browser/common/test_connections.py::test_a_request_must_come_whole",
    ),
    Mutant(
        "browser/common/site_server.py",
        "oldest.drop()",
        "pass",
        "browser/common/test_connections.py::test_of_too_many_the_one_that_waited_longest_is_closed",
    ),
)
