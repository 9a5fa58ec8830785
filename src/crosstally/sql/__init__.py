"""SQL over a release: SELECT with GROUP BY, answered from its tables, both ends of an interval beside each number."""

from crosstally.sql.sql_answer import SqlAnswer, answer_sql

__all__ = ["SqlAnswer", "answer_sql"]
