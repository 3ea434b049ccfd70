"""Tail probabilities of t, F, chi-square and the normal distribution, for check_statistics.py: there is no scipy here.

The regularised incomplete beta and gamma functions by their continued fractions (modified Lentz), as in NIST's DLMF 8.9
and 8.17; good to about ten digits for what papers report.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

TINY = 1e-300
CLOSE = 1e-14


def two_sided_t(t: float, df: float) -> float:
    """P(|T| >= |t|)."""
    return incomplete_beta(df / 2, 0.5, df / (df + t * t))


def upper_f(f: float, df1: float, df2: float) -> float:
    """P(F >= f)."""
    return incomplete_beta(df2 / 2, df1 / 2, df2 / (df2 + df1 * f)) if f > 0 else 1.0


def upper_chi2(x: float, df: float) -> float:
    """P(X >= x)."""
    return upper_gamma(df / 2, x / 2) if x > 0 else 1.0


def two_sided_z(z: float) -> float:
    """P(|Z| >= |z|)."""
    return math.erfc(abs(z) / math.sqrt(2))


def incomplete_beta(a: float, b: float, x: float) -> float:
    """Regularised, I_x(a, b)."""
    if not 0 < x < 1:
        return 0.0 if x <= 0 else 1.0
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    if x > (a + 1) / (a + b + 2):
        return 1.0 - front * _fraction(_beta_terms(b, a, 1 - x)) / b
    return front * _fraction(_beta_terms(a, b, x)) / a


def _beta_terms(a: float, b: float, x: float) -> Iterator[tuple[float, float]]:
    """Numerators and denominators of the fraction behind its leading 1 (DLMF 8.17.22)."""
    yield 1.0, 1.0
    m = 0
    while True:
        yield -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)), 1.0
        m += 1
        yield m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)), 1.0


def upper_gamma(a: float, x: float) -> float:
    """Regularised, Q(a, x)."""
    front = math.exp(-x + a * math.log(x) - math.lgamma(a))
    if x >= a + 1:
        return front * _fraction(_gamma_terms(a, x))
    term = total = 1 / a
    n = a
    while term > total * CLOSE:
        n += 1
        term *= x / n
        total += term
    return 1.0 - front * total


def _gamma_terms(a: float, x: float) -> Iterator[tuple[float, float]]:
    """DLMF 8.9.2, with the denominators x - a + 1, x - a + 3, ..."""
    yield 1.0, x - a + 1
    n = 0
    while True:
        n += 1
        yield -n * (n - a), x - a + 1 + 2 * n


def _fraction(terms: Iterator[tuple[float, float]]) -> float:
    """a1 / (b1 + a2 / (b2 + ...)) until it changes no more."""
    value, c, d = TINY, TINY, 0.0
    for numerator, denominator in terms:
        d = 1 / ((denominator + numerator * d) or TINY)
        c = (denominator + numerator / c) or TINY
        value *= c * d
        if abs(c * d - 1) < CLOSE:
            break
    return value
