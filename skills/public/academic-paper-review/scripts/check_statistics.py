"""Recomputes what a paper reports: do tests, degrees of freedom and p values fit, can means and percentages be?

  check_statistics.py scan paper.md                     every t, F, chi-square, r and z with a p value in a text
  check_statistics.py grim --mean 3.45 --n 20           can a mean of whole numbers be that (GRIM)? --items for scales
  check_statistics.py percent --percent 33.4 --n 20     which counts give that percentage
  check_statistics.py groups --m1 5.2 --sd1 1.1 --n1 20 --m2 4.4 --sd2 1.3 --n2 22     t, p, d with its interval
  check_statistics.py interval --estimate 1.8 --low 1.1 --high 2.9 --ratio             does the interval fit; which p

An inconsistency is a question to the authors, never a verdict: one-sided tests, corrections and typing errors exist.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from _distributions import two_sided_t, two_sided_z, upper_chi2, upper_f

NUMBER = r"[-−–]?\s?(?:\d+(?:\.\d+)?|\.\d+)"
P_VALUE = rf"(?:[,;(]|\s)\s*(?:p|P)\s*(?P<sign>[<>=≤≥])\s*(?P<p>{NUMBER})|[,;]\s*(?P<ns>n\.?s\.?)\b"
KINDS = {
    "t": rf"\bt\s?\(\s*(?P<df1>{NUMBER})\s*\)",
    "F": rf"\bF\s?\(\s*(?P<df1>{NUMBER})\s*,\s*(?P<df2>{NUMBER})\s*\)",
    "chi2": r"(?:χ|X|chi)\s?(?:²|2|\^2|-squared?)\s?\(\s*(?P<df1>\d+)\s*(?:,\s*N\s*=\s*[\d, ]+)?\)",
    "r": rf"\br\s?\(\s*(?P<df1>{NUMBER})\s*\)",
    "z": r"\b[zZ]",
}
LEVEL = 0.05


def stop(problem: str, fix: str) -> NoReturn:
    """Ends the script with one line that says what to do."""
    sys.exit(f"error: {problem}\n  fix: {fix}")


def main() -> None:
    args = _parser().parse_args()
    {"scan": _scan, "grim": _grim, "percent": _percent, "groups": _groups, "interval": _interval}[args.command](args)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("scan", help="all results of a text").add_argument("file", type=Path, help="the paper as text")
    grim = commands.add_parser("grim", help="can a mean of whole numbers be that?")
    grim.add_argument("--mean", required=True, help="as it is printed, with its decimals")
    grim.add_argument("--n", type=int, required=True)
    grim.add_argument("--items", type=int, default=1, help="items that were averaged for each person")
    percent = commands.add_parser("percent", help="which counts give a percentage?")
    percent.add_argument("--percent", required=True, help="as it is printed")
    percent.add_argument("--n", type=int, required=True)
    groups = commands.add_parser("groups", help="two means")
    for name in ("m1", "sd1", "m2", "sd2"):
        groups.add_argument(f"--{name}", type=float, required=True)
    for name in ("n1", "n2"):
        groups.add_argument(f"--{name}", type=int, required=True)
    interval = commands.add_parser("interval", help="an estimate and its interval")
    for name in ("estimate", "low", "high"):
        interval.add_argument(f"--{name}", type=float, required=True)
    interval.add_argument("--ratio", action="store_true", help="odds, risk or hazard ratio: symmetric in its logarithm")
    interval.add_argument("--level", type=float, default=95.0, help="percent")
    return parser


@dataclass(frozen=True)
class Reported:
    """A result as a paper prints it. low, high: what the statistic was before it was rounded."""

    kind: str
    text: str
    df1: float
    df2: float
    low: float
    high: float
    sign: str
    p: float
    p_step: float

    def computed(self) -> tuple[float, float]:
        """The smallest and the largest p that fit the printed statistic."""
        return _p(self, self.high), _p(self, self.low)


def _p(found: Reported, value: float) -> float:
    if found.kind == "t":
        return two_sided_t(value, found.df1)
    if found.kind == "F":
        return upper_f(value, found.df1, found.df2)
    if found.kind == "chi2":
        return upper_chi2(value, found.df1)
    if found.kind == "z":
        return two_sided_z(value)
    value = min(value, 0.999999999)
    return two_sided_t(value * math.sqrt(found.df1 / (1 - value * value)), found.df1)


def step(printed: str) -> float:
    """Half of the last printed digit."""
    return 0.5 * 10.0 ** -len(printed.partition(".")[2])


def plain(printed: str) -> str:
    """With an ordinary minus."""
    return printed.replace("−", "-").replace("–", "-").replace(" ", "")


def results(text: str) -> list[Reported]:
    """All of a text, in its order."""
    text = " ".join(text.replace("*", "").replace("_", "").split())
    found: list[tuple[int, Reported]] = []
    for kind, head in KINDS.items():
        for match in re.finditer(rf"{head}\s*=\s*(?P<value>{NUMBER})\s*(?:{P_VALUE})", text):
            found.append((match.start(), _reported(kind, match)))
    return [each for _, each in sorted(found, key=lambda pair: pair[0])]


def _reported(kind: str, match: re.Match[str]) -> Reported:
    groups = match.groupdict()
    printed = plain(groups["value"]).lstrip("-")
    value, half = float(printed), step(printed)
    p = plain(groups["p"] or "") or str(LEVEL)
    sign = {"≤": "<", "≥": ">"}.get(groups["sign"] or ">", groups["sign"] or ">")
    df1, df2 = (float(plain(groups.get(name) or "0")) for name in ("df1", "df2"))
    return Reported(kind, match[0].strip(), df1, df2, max(value - half, 0.0), value + half, sign, float(p), step(p))


def verdict(found: Reported) -> str:
    """ok, one-sided?, or what does not fit; "decision" where the difference crosses 0.05."""
    least, most = found.computed()
    if _fits(found, least, most):
        return "ok"
    if found.kind in ("t", "z", "r") and _fits(found, least / 2, most / 2):
        return "fits a one-sided test only: does the paper say so?"
    claimed = found.sign != ">" and (found.p < LEVEL or (found.p == LEVEL and found.sign == "<"))
    crossing = (claimed and least > LEVEL) or (not claimed and most < LEVEL)
    return "does not fit, and the decision at 0.05 changes" if crossing else "does not fit"


def _fits(found: Reported, least: float, most: float) -> bool:
    if found.sign == "<":
        return least < found.p
    if found.sign == ">":
        return most > found.p
    return least <= found.p + found.p_step and most >= found.p - found.p_step


def _scan(args: argparse.Namespace) -> None:
    if not args.file.is_file():
        stop(
            f"there is no file {args.file}",
            "give the paper as text: the .md beside the upload, or convert the PDF first",
        )
    found = results(args.file.read_text(encoding="utf-8", errors="replace"))
    wrong = 0
    for each in found:
        least, most = each.computed()
        said = verdict(each)
        wrong += said != "ok"
        print(f"{'  ' if said == 'ok' else '! '}{each.text}  -> p = {least:.4g} to {most:.4g}: {said}")
    print(f"{len(found)} results read, {wrong} to look at. What a table or figure says is not read.")


def _grim(args: argparse.Namespace) -> None:
    printed = plain(args.mean)
    total = args.n * args.items
    decimals = len(printed.partition(".")[2])
    if total > 10**decimals:
        print(f"With n x items = {total} every mean of {decimals} decimals is possible: the test says nothing.")
        return
    mean, half = float(printed), step(printed)
    possible = [k / total for k in range(math.floor((mean - half) * total), math.ceil((mean + half) * total) + 1)]
    fitting = [value for value in possible if mean - half - 1e-9 <= value <= mean + half + 1e-9]
    near = ", ".join(f"{value:.{decimals}f}" for value in sorted(possible, key=lambda value: abs(value - mean))[:2])
    said = "possible" if fitting else f"impossible for whole numbers with n = {args.n}; near ones: {near}"
    print(f"{printed} is {said}")


def _percent(args: argparse.Namespace) -> None:
    printed = plain(args.percent)
    value, half = float(printed), step(printed)
    counts = [k for k in range(args.n + 1) if value - half - 1e-9 <= 100 * k / args.n <= value + half + 1e-9]
    said = f"count {' or '.join(map(str, counts[:6]))}" if counts else "no whole count gives that"
    print(f"{printed} % of {args.n}: {said}")


def _groups(args: argparse.Namespace) -> None:
    if min(args.n1, args.n2) < 2 or min(args.sd1, args.sd2) <= 0:
        stop("groups need n of at least 2 and deviations above 0", "check the numbers; are these standard errors?")
    df = args.n1 + args.n2 - 2
    pooled = math.sqrt(((args.n1 - 1) * args.sd1**2 + (args.n2 - 1) * args.sd2**2) / df)
    error = pooled * math.sqrt(1 / args.n1 + 1 / args.n2)
    t = (args.m1 - args.m2) / error
    d = (args.m1 - args.m2) / pooled
    spread = math.sqrt((args.n1 + args.n2) / (args.n1 * args.n2) + d * d / (2 * (args.n1 + args.n2)))
    v1, v2 = args.sd1**2 / args.n1, args.sd2**2 / args.n2
    welch = (args.m1 - args.m2) / math.sqrt(v1 + v2)
    welch_df = (v1 + v2) ** 2 / (v1**2 / (args.n1 - 1) + v2**2 / (args.n2 - 1))
    print(f"Student: t({df}) = {t:.3f}, p = {two_sided_t(t, df):.4g}")
    print(f"Welch:   t({welch_df:.1f}) = {welch:.3f}, p = {two_sided_t(welch, welch_df):.4g}")
    print(f"d = {d:.2f}, 95 % interval about {d - 1.96 * spread:.2f} to {d + 1.96 * spread:.2f}")


def _interval(args: argparse.Namespace) -> None:
    values = [args.low, args.estimate, args.high]
    if args.ratio and min(values) <= 0:
        stop("ratios are above 0", "leave out --ratio for differences")
    low, estimate, high = (math.log(value) if args.ratio else value for value in values)
    if not low < high:
        stop("low is not below high", "check the numbers")
    multiple = _normal_quantile(0.5 + args.level / 200)
    middle, error = (low + high) / 2, (high - low) / 2 / multiple
    off = abs(estimate - middle) / ((high - low) / 2)
    what = "standard error of the logarithm" if args.ratio else "standard error"
    print(f"p about {two_sided_z(estimate / error):.4g}; {what} {error:.4g}")
    if off > 0.1:
        print(f"The estimate is {off:.0%} of the half width away from the middle: rounding, or a mistake?")


def _normal_quantile(share: float) -> float:
    low, high = -10.0, 10.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if 1 - math.erfc(middle / math.sqrt(2)) / 2 < share else (low, middle)
    return low


if __name__ == "__main__":
    main()
