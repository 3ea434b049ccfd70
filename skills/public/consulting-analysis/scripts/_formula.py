"""Formulas of a business model: arithmetic over names, nothing else; used by scenarios.py."""

from __future__ import annotations

import ast
import operator
import sys
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
COMPARE: dict[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq,
}  # fmt: skip
FUNCTIONS: dict[str, Callable[..., float]] = {"min": min, "max": max, "round": round, "abs": abs}
LARGEST_POWER = 200


def stop(problem: str, fix: str) -> NoReturn:
    """Ends the script with one line that says what to do."""
    sys.exit(f"error: {problem}\n  fix: {fix}")


class Formula:
    """One line of a model, as in "price * volume * (1 + growth) ** year if year < 3 else 0"."""

    def __init__(self, name: str, text: str) -> None:
        self.name, self.text = name, text
        try:
            self._tree = ast.parse(str(text), mode="eval").body
        except SyntaxError as error:
            stop(
                f"{name}: {text!r} is no formula: {error.msg}",
                "use + - * / **, ( ), min, max, abs, round, and a if b else c",
            )

    def value(self, names: Mapping[str, float]) -> float:
        """Ends the script where it cannot be computed."""
        try:
            return float(self._of(self._tree, names))
        except (ZeroDivisionError, OverflowError, TypeError) as error:  # TypeError: the root of a negative number
            stop(f"{self.name}: {self.text!r} cannot be computed: {error}", f"the values were {dict(names)}")

    def _of(self, node: ast.expr, names: Mapping[str, float]) -> float:
        match node:
            case ast.Constant(value=int() | float() as value):
                return value
            case ast.Name(id=name) if name in names:
                return names[name]
            case ast.Name(id=name):
                stop(f"{self.name}: {name!r} is not known", f"there are: {', '.join(names)}")
            case ast.BinOp(left=left, op=op, right=right) if type(op) in BINARY:
                power = self._of(right, names)
                if isinstance(op, ast.Pow) and abs(power) > LARGEST_POWER:
                    stop(f"{self.name}: a power of {power}", "mend the formula")
                return BINARY[type(op)](self._of(left, names), power)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self._of(operand, names)
            case ast.IfExp(test=ast.Compare(left=left, ops=[op], comparators=[right]), body=body, orelse=other) if (
                type(op) in COMPARE
            ):
                holds = COMPARE[type(op)](self._of(left, names), self._of(right, names))
                return self._of(body if holds else other, names)
            case ast.Call(func=ast.Name(id=name), args=arguments) if name in FUNCTIONS and arguments:
                return FUNCTIONS[name](*(self._of(each, names) for each in arguments))
        stop(
            f"{self.name}: {ast.unparse(node)!r} is not allowed in a formula",
            "use + - * / **, min, max, abs, round, a if b else c",
        )
