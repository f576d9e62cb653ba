"""
Label selectors: parse, match, print; equality- and set-based.

A `Requirement` has the shape of a NodeSelectorRequirement, so a selector can become node affinity
as it is. Source: apimachinery pkg/labels/selector.go.
"""

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass

from vkubelet.kube.names import is_label_key, is_label_value

_INTEGER = re.compile(r"[+-]?[0-9]+")
_TOKEN = re.compile(r"[ \t\r\n]*(?:(?P<symbol>==|!=|[=!(),<>])|(?P<word>[^=!(),<> \t\r\n]+)|$)")
_INT64 = 1 << 63


class Operator(enum.StrEnum):
    """Operators of a requirement, as in NodeSelectorRequirement."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on a label."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels satisfy it (NotIn is satisfied by an absent key)."""
        value = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return value is not None and value in self.values
            case Operator.NOT_IN:
                return value is None or value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
            case Operator.GT | Operator.LT:
                return self._compares(value)

    @property
    def problem(self) -> str | None:
        """Why it can't be evaluated, if it can't; the scheduler lets such a one match nothing."""
        if not is_label_key(self.key):
            return f"{self.key!r} is not a label key"
        invalid = next((value for value in self.values if not is_label_value(value)), None)
        if invalid is not None:
            return f"{invalid!r} is not a label value"
        match self.operator:
            case Operator.IN | Operator.NOT_IN:
                return None if self.values else "at least one value is needed"
            case Operator.EXISTS | Operator.DOES_NOT_EXIST:
                return "no values are allowed" if self.values else None
            case Operator.GT | Operator.LT:
                if len(self.values) == 1 and _parse_int64(self.values[0]) is not None:
                    return None
                return "one integer is needed"

    def __str__(self) -> str:
        match self.operator:
            case Operator.EXISTS:
                return self.key
            case Operator.DOES_NOT_EXIST:
                return f"!{self.key}"
            case Operator.GT:
                return f"{self.key}>{self.values[0]}"
            case Operator.LT:
                return f"{self.key}<{self.values[0]}"
            case Operator.IN:
                return self._format_set("=", "in")
            case Operator.NOT_IN:
                return self._format_set("!=", "notin")

    def _format_set(self, symbol: str, word: str) -> str:
        if len(self.values) == 1:
            return f"{self.key}{symbol}{self.values[0]}"
        return f"{self.key} {word} ({','.join(self.values)})"

    def _compares(self, label: str | None) -> bool:
        left = None if label is None else _parse_int64(label)
        right = _parse_int64(self.values[0]) if len(self.values) == 1 else None
        if left is None or right is None:
            return False
        return left > right if self.operator is Operator.GT else left < right


@dataclass(frozen=True, slots=True)
class Selector:
    """Requirements that must all hold; none matches everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels satisfy all requirements."""
        return all(requirement.matches(labels) for requirement in self.requirements)

    def __str__(self) -> str:
        """The selector as the API takes it."""
        return ",".join(str(requirement) for requirement in self.requirements)


class SelectorError(ValueError):
    """
    The text isn't a selector; the message has a caret under the offending character.

    Attributes:
        text: What was given.
        position: Index of the offending character; the length of the text if it ends too early.
        problem: What is wrong there.
    """

    def __init__(self, text: str, position: int, problem: str) -> None:
        super().__init__(text, position, problem)
        self.text = text
        self.position = position
        self.problem = problem

    def __str__(self) -> str:
        shown = re.sub(r"\s", " ", self.text)  # a line break would move the caret away
        return f"not a label selector: {self.problem}\n  {shown}\n  {' ' * self.position}^"


def parse_selector(text: str) -> Selector:
    """
    Parse `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1,m<2`; the empty text selects everything.

    Raises:
        SelectorError: Points at the character.
    """
    return _Parser(text).parse()


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str  # the symbol itself, "word" or "end"
    text: str
    position: int

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else repr(self.text)


def _scan(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    position = 0
    while not tokens or tokens[-1].kind != "end":
        match = _TOKEN.match(text, position)
        assert match is not None  # every character is blank, symbol or part of a word
        position = match.end()
        if match["symbol"] is not None:
            tokens.append(_Token(match["symbol"], match["symbol"], match.start("symbol")))
        elif match["word"] is not None:
            tokens.append(_Token("word", match["word"], match.start("word")))
        else:
            tokens.append(_Token("end", "", len(text)))
    return tokens


class _Parser:
    """Recursive descent over the tokens; `in` and `notin` are words with a meaning after a key."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _scan(text)
        self._next = 0

    def parse(self) -> Selector:
        requirements: list[Requirement] = []
        if self._peek().kind == "end":
            return Selector()
        while True:
            requirements.append(self._parse_requirement())
            token = self._take()
            if token.kind == "end":
                return Selector(tuple(requirements))
            if token.kind != ",":
                raise self._error(token, f"expected ',' or the end, found {token}")

    def _parse_requirement(self) -> Requirement:
        negated = self._peek().kind == "!"
        if negated:
            self._take()
        token = self._take()
        if token.kind != "word":
            raise self._error(token, f"expected a label key, found {token}")
        if not is_label_key(token.text):
            raise self._error(token, f"{token} is not a label key")
        if negated or self._peek().kind in ("end", ","):
            return Requirement(token.text, Operator.DOES_NOT_EXIST if negated else Operator.EXISTS)
        return self._parse_restriction(token.text)

    def _parse_restriction(self, key: str) -> Requirement:
        token = self._take()
        match token.kind, token.text:
            case ("=" | "==", _):
                return Requirement(key, Operator.IN, (self._parse_exact_value(),))
            case ("!=", _):
                return Requirement(key, Operator.NOT_IN, (self._parse_exact_value(),))
            case (">", _):
                return Requirement(key, Operator.GT, (self._parse_integer(),))
            case ("<", _):
                return Requirement(key, Operator.LT, (self._parse_integer(),))
            case ("word", "in"):
                return Requirement(key, Operator.IN, self._parse_values())
            case ("word", "notin"):
                return Requirement(key, Operator.NOT_IN, self._parse_values())
            case _:
                pass
        raise self._error(token, f"expected =, !=, in, notin, < or > after {key!r}, found {token}")

    def _parse_exact_value(self) -> str:
        return "" if self._peek().kind in ("end", ",") else self._parse_value()

    def _parse_value(self) -> str:
        token = self._take()
        if token.kind != "word":
            raise self._error(token, f"expected a value, found {token}")
        if not is_label_value(token.text):
            raise self._error(token, f"{token} is not a label value")
        return token.text

    def _parse_integer(self) -> str:
        token = self._peek()
        value = self._parse_exact_value()
        if _parse_int64(value) is None:
            raise self._error(token, f"expected an integer, found {token}")
        return value

    def _parse_values(self) -> tuple[str, ...]:
        token = self._take()
        if token.kind != "(":
            raise self._error(token, f"expected '(', found {token}")
        values: set[str] = set()
        while True:
            # (a,,b) holds the empty value, and so does ()
            values.add("" if self._peek().kind in (",", ")") else self._parse_value())
            token = self._take()
            if token.kind == ")":
                return tuple(sorted(values))
            if token.kind != ",":
                raise self._error(token, f"expected ',' or ')', found {token}")

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._tokens[self._next]
        if token.kind != "end":
            self._next += 1
        return token

    def _error(self, token: _Token, problem: str) -> SelectorError:
        return SelectorError(self._text, token.position, problem)


def _parse_int64(text: str) -> int | None:
    if not _INTEGER.fullmatch(text) or len(text) > 63:
        return None
    value = int(text)
    return value if -_INT64 <= value < _INT64 else None
