"""Questions as text: ``25 <= age < 35 and sex = Female``, ``total(children) where sex = Female``.

    question    = condition | ("total" | "fourier" | "wavelet") "(" name {"," name | number} ")" ["where" condition]
    condition   = conjunction {"or" conjunction}
    conjunction = negation {"and" negation}
    negation    = "not" negation | "(" condition ")" | comparison
    comparison  = name ("=" | "!=") label | name ["not"] "in" "{" label {"," label} "}"
                | name ("<" | "<=" | ">" | ">=") number
                | number ("<" | "<=") name [("<" | "<=") number] | number (">" | ">=") name

Names and labels with blanks or signs, and labels that are words of the grammar, stand in quotes, '...' or "..."; a
quote inside is written twice. The labels that a schema makes itself need no quotes: bins, ``age = [18, 30)``, and
``(other)`` and ``(missing)``. Errors name the position of the character, from 1.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from decimal import Decimal

from crosstally.errors import QueryError
from crosstally.query.conditions import And, Condition, Not, OneOf, Or, Range, number_of_text, shown, where_in_text
from crosstally.schema import MISSING, OTHER, canonical_text

_MAX_TEXT = 10_000  # limits time: longer questions are refused before they are read
_MAX_DEPTH = 50  # a limit: the parser calls itself at each bracket, and Python's stack is bounded
_WORDS = ("and", "or", "not", "in")
_CALLS = ("total", "fourier", "wavelet")
BIN = re.compile(r"\[\s*([^\s<>=!(){}\[\],\"']+)\s*,\s*([^\s<>=!(){}\[\],\"']+)\s*([)\]])")
_TOKEN = re.compile(
    rf"""\s*(?:(?P<bin>{BIN.pattern})|(?P<cell>{re.escape(OTHER)}|{re.escape(MISSING)})|"""
    r"""(?P<sign><=|>=|!=|==|[<>=(){},])|"(?P<double>(?:[^"]|"")*)"|'(?P<single>(?:[^']|'')*)'"""
    r"""|(?P<word>[^\s<>=!(){},"']+)|(?P<end>\Z)|(?P<wrong>.))""",
    re.DOTALL,
)


def parse(text: str) -> Condition:
    """The condition that a text says; it is resolved with a schema later.

    >>> parse("sex = Female and region in {North, South}").boxes  # doctest: +ELLIPSIS
    <bound method And.boxes of And(parts=(OneOf(attribute='sex', ...
    """
    return _Parser(_tokens(text)).whole()


@dataclass(frozen=True, slots=True)
class Call:
    """What is asked for beside counts: its name, what stands in the brackets, and over which rows."""

    name: str
    arguments: tuple[str, ...]
    condition: Condition | None


def parse_question(text: str) -> Condition | Call:
    """The condition of a count, or what else a text asks for.

    >>> parse_question("total(children)")
    Call(name='total', arguments=('children',), condition=None)
    """
    return _Parser(_tokens(text)).question()


@dataclass(frozen=True, slots=True)
class _Token:
    """A piece of the text: its kind is ``sign``, ``quoted``, ``word`` or ``end``."""

    kind: str
    text: str
    _: KW_ONLY
    position: int

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else shown(self.text)

    def says(self, *texts: str) -> bool:
        """Whether it is one of these signs or words."""
        return (self.kind == "sign" and self.text in texts) or (self.kind == "word" and self.text.lower() in texts)

    @property
    def is_name(self) -> bool:
        """Whether it may be a name or a label."""
        return self.kind == "quoted" or (self.kind == "word" and self.text.lower() not in _WORDS)

    @property
    def number(self) -> Decimal | None:
        """The number it is, if it is one; what is quoted is a text."""
        return number_of_text(self.text) if self.kind == "word" else None


def _tokens(text: str) -> list[_Token]:
    if len(text) > _MAX_TEXT:
        raise QueryError(f"a question must have at most {_MAX_TEXT:,} characters, got {len(text):,}")
    tokens, place = [], 0
    while True:
        match = _TOKEN.match(text, place)
        assert match is not None  # any character matches
        kind = match.lastgroup or "end"
        found, position = match[kind], match.start(kind) + 1
        if kind == "wrong":
            reason = "a quote that is never closed" if found in "\"'" else f"an unexpected {shown(found)}"
            raise QueryError(f"{where_in_text(position)}{reason}")
        if kind in ("double", "single"):
            quote = text[match.start(kind) - 1]
            kind, found, position = "quoted", found.replace(quote * 2, quote), position - 1
        if kind in ("bin", "cell"):
            kind, found = "quoted", BIN.sub(bin_label, found)
        tokens.append(_Token(kind, found, position=position))
        if kind == "end":
            return tokens
        place = match.end()


def bin_label(bin_: re.Match[str]) -> str:
    """The label of a bin as a schema writes it: ``[18, 30)``, however it was spaced."""
    return f"[{canonical_text(bin_[1])}, {canonical_text(bin_[2])}{bin_[3]}"


class _Parser:
    """Recursive descent over the tokens, one method for each rule of the grammar."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._place = 0
        self._depth = 0

    @property
    def _next(self) -> _Token:
        return self._tokens[self._place]

    def _take(self) -> _Token:
        token = self._next
        self._place += token.kind != "end"
        return token

    def _taken(self, *texts: str) -> bool:
        if not self._next.says(*texts):
            return False
        self._take()
        return True

    def _expect(self, sign: str, why: str) -> None:
        if not self._taken(sign):
            raise self._wrong(self._next, f"expected {sign!r} {why}")

    @staticmethod
    def _wrong(token: _Token, expected: str) -> QueryError:
        return QueryError(f"{where_in_text(token.position)}{expected}, got {token}")

    def question(self) -> Condition | Call:
        first, second = self._tokens[0], self._tokens[min(1, len(self._tokens) - 1)]
        if first.kind != "word" or not first.says(*_CALLS) or not second.says("("):
            return self.whole()
        self._place = 2
        arguments = self._listed("(")
        self._expect(")", f"for the '(' at position {second.position}")
        if self._next.kind == "end":
            return Call(first.text.lower(), arguments, None)
        if not self._taken("where"):
            raise self._wrong(self._next, "expected 'where' or the end")
        return Call(first.text.lower(), arguments, self.whole())

    def whole(self) -> Condition:
        found = self._condition()
        if self._next.kind != "end":
            raise self._wrong(self._next, "expected 'and', 'or' or the end (labels with blanks need quotes)")
        return found

    def _condition(self) -> Condition:
        return self._joined("or", self._conjunction, Or)

    def _conjunction(self) -> Condition:
        return self._joined("and", self._negation, And)

    def _joined(
        self, word: str, part: Callable[[], Condition], kind: Callable[[tuple[Condition, ...]], Condition]
    ) -> Condition:
        parts = [part()]
        while self._taken(word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else kind(tuple(parts))

    def _negation(self) -> Condition:
        token = self._next
        if not token.says("not", "("):
            return self._comparison()
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise QueryError(f"{where_in_text(token.position)}nested more than {_MAX_DEPTH} deep")
        self._take()
        if token.kind == "word":
            found: Condition = Not(self._negation())
        else:
            found = self._condition()
            self._expect(")", f"for the '(' at position {token.position}")
        self._depth -= 1
        return found

    def _comparison(self) -> Condition:
        first = self._take()
        if not first.is_name:
            raise self._wrong(first, "expected an attribute or a number")
        operator = self._take()
        if first.number is not None and operator.says("<", "<=", ">", ">="):
            return self._number_first(first.number, operator)
        if operator.says("=", "==", "!="):
            label = self._label(f"after {operator.text!r}")
            found = OneOf(first.text, (label.text,), first.position)
            return Not(found) if operator.text == "!=" else found
        if operator.says("in", "not"):
            if operator.says("not") and not self._taken("in"):
                raise self._wrong(self._next, "expected 'in' after 'not'")
            labels = OneOf(first.text, self._labels(), first.position)
            return Not(labels) if operator.says("not") else labels
        if operator.says("<", "<=", ">", ">="):
            return _range(first, operator, self._number(operator))
        hint = " (names with blanks need quotes)" if operator.is_name else ""
        raise self._wrong(operator, f"expected =, !=, <, <=, >, >= or in after {first}{hint}")

    def _number_first(self, number: Decimal, operator: _Token) -> Condition:
        name = self._take()
        if not name.is_name or name.number is not None:
            raise self._wrong(name, f"expected an attribute after {operator.text!r}")
        flipped = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}[operator.text]
        found = _range(name, _Token("sign", flipped, position=operator.position), number)
        if not self._next.says("<", "<=", ">", ">="):
            return found
        second = self._take()
        if second.text[0] != operator.text[0]:
            raise self._wrong(second, f"expected a bound on the other side, with {operator.text[0]!r}")
        return And((found, _range(name, second, self._number(second))))

    def _number(self, operator: _Token) -> Decimal:
        token = self._take()
        if token.number is None:
            raise self._wrong(token, f"expected a number after {operator.text!r}")
        return token.number

    def _label(self, where: str) -> _Token:
        token = self._take()
        if not token.is_name:
            raise self._wrong(token, f"expected a value {where}")
        return token

    def _labels(self) -> tuple[str, ...]:
        self._expect("{", "before the values")
        labels = self._listed("{")
        self._expect("}", "after the values")
        return labels

    def _listed(self, opened: str) -> tuple[str, ...]:
        labels = [self._label(f"after {opened!r}").text]
        while self._taken(","):
            labels.append(self._label("after ','").text)
        return tuple(labels)


def _range(name: _Token, operator: _Token, number: Decimal) -> Range:
    below = operator.text[0] == "<"
    equal = operator.text.endswith("=")
    return Range(
        name.text,
        None if below else number,
        number if below else None,
        with_low=equal,
        with_high=equal,
        position=name.position,
    )
