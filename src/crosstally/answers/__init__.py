"""From an estimate to the answer to one question."""

from crosstally.answers.answer import answer, answer_all
from crosstally.answers.error_bars import ErrorBars

__all__ = ["ErrorBars", "answer", "answer_all"]
