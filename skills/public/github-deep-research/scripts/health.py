"""Compares repositories by figures that were read from their pages: how alive, by how many people, how looked after.

  health.py facts.json --output /mnt/user-data/outputs/comparison.md

{"as_of": "2026-07-03", "repositories": [
  {"name": "owner/one", "created": "2019-04-01", "license": "MIT", "archived": false,
   "releases": ["2026-05-01", "2026-02-10", "2025-11-03"], "breaking_releases": 1,
   "commits_by_author": {"ann": 420, "bob": 77, "cy": 12}, "last_commit": "2026-06-30",
   "issues": [{"opened": "2026-01-02", "first_answer": "2026-01-03", "closed": "2026-01-20"}, {"opened": "2026-05-05"}],
   "open_pull_requests": 14, "advisories_open": 0}]}

issues: a sample, the newest 20 to 50 in order, not the ones that look bad. What was not read is left out: unknown.
"""

from __future__ import annotations

import argparse
import json
import sys
from datetime import date
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, NoReturn

QUIET_DAYS, STALE_DAYS = 180, 365
KEYS = frozenset(
    [
        *(
            "name",
            "created",
            "license",
            "archived",
            "releases",
            "breaking_releases",
            "commits_by_author",
            "last_commit",
        ),
        *("issues", "open_pull_requests", "advisories_open"),
    ]
)
UNKNOWN = "unknown"


def stop(problem: str, fix: str) -> NoReturn:
    """Ends the script with one line that says what to do."""
    sys.exit(f"error: {problem}\n  fix: {fix}")


def day(text: object, what: str) -> date:
    """Ends the script where it is no date."""
    try:
        return date.fromisoformat(str(text)[:10])
    except ValueError:
        stop(f"{what}: {text!r} is no date", "write it as 2026-07-03")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("facts", type=Path, help="what was read, JSON as above")
    parser.add_argument("--output", type=Path, help="a .md for the comparison")
    args = parser.parse_args()
    try:
        facts = json.loads(args.facts.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        stop(f"{args.facts}: {error}", "write the facts as JSON; --help shows them")
    repositories = facts.get("repositories") or stop("there are no repositories", "--help shows the form")
    today = day(facts.get("as_of"), "as_of")
    text = compared([measured(each, today) for each in repositories])
    print(text)
    if args.output:
        args.output.parent.mkdir(parents=True, exist_ok=True)
        args.output.write_text(text + "\n", encoding="utf-8")


def measured(repository: dict[str, Any], today: date) -> dict[str, str]:
    """One repository's row, and under "watch" what should make one look twice."""
    name = str(repository.get("name", "?"))
    if unknown := set(repository) - KEYS:
        stop(f"{name}: unknown keys {', '.join(sorted(unknown))}", f"there are: {', '.join(sorted(KEYS))}")
    row = {"repository": name, "license": str(repository.get("license", UNKNOWN))}
    watch = ["archived"] if repository.get("archived") else []
    row["age"] = _age(repository.get("created"), today, name)
    row["last commit"], late = _since(repository.get("last_commit"), today, name)
    row["releases"] = _releases(repository.get("releases"), today, name)
    row["people"], lonely = _people(repository.get("commits_by_author"))
    row["issues (sample)"] = _issues(repository.get("issues"), today, name)
    row["open pull requests"] = str(repository.get("open_pull_requests", UNKNOWN))
    advisories = repository.get("advisories_open")
    watch += [late] if late else []
    watch += [lonely] if lonely else []
    watch += [f"{advisories} open security advisories"] if advisories else []
    watch += ["no license: nobody may use it"] if row["license"].lower() in ("none", "") else []
    row["watch"] = "; ".join(watch) or "nothing stands out"
    return row


def _age(created: object, today: date, name: str) -> str:
    return UNKNOWN if created is None else f"{(today - day(created, name)).days / 365.25:.1f} years"


def _since(last: object, today: date, name: str) -> tuple[str, str]:
    if last is None:
        return UNKNOWN, ""
    days = (today - day(last, name)).days
    if days < 0:
        stop(f"{name}: last_commit lies behind as_of", "as_of is the day on which it was read")
    late = "no commit for a year" if days > STALE_DAYS else "no commit for half a year" if days > QUIET_DAYS else ""
    return f"{days} days ago", late


def _releases(releases: object, today: date, name: str) -> str:
    if not isinstance(releases, list):
        return UNKNOWN
    days = sorted(day(each, name) for each in releases)
    if not days:
        return "none"
    last = f"last {(today - days[-1]).days} days ago"
    gaps = [(later - earlier).days for earlier, later in pairwise(days)]
    return f"{last}, {median(gaps):.0f} days between two (of {len(days)})" if gaps else last


def _people(commits: object) -> tuple[str, str]:
    """How many make half of the commits: if they go, the knowledge goes."""
    if not isinstance(commits, dict) or not commits:
        return UNKNOWN, ""
    counts = sorted((int(count) for count in commits.values()), reverse=True)
    total, so_far, heads = sum(counts), 0, 0
    while so_far * 2 < total:
        so_far += counts[heads]
        heads += 1
    share = counts[0] / total
    lonely = f"one person made {share:.0%} of the commits" if share > 0.7 else ""
    return f"{heads} of {len(counts)} make half of {total} commits", lonely


def _issues(issues: object, today: date, name: str) -> str:
    if not isinstance(issues, list) or not issues:
        return UNKNOWN
    closed = [(day(i["closed"], name) - day(i["opened"], name)).days for i in issues if i.get("closed")]
    answered = [(day(i["first_answer"], name) - day(i["opened"], name)).days for i in issues if i.get("first_answer")]
    waiting = [(today - day(i["opened"], name)).days for i in issues if not i.get("closed")]
    parts = [f"{len(closed)} of {len(issues)} closed" + (f" after {median(closed):.0f} days" if closed else "")]
    parts += [f"answered after {median(answered):.0f} days"] if answered else []
    parts += [f"open for {median(waiting):.0f} days"] if waiting else []
    return ", ".join(parts)


def compared(rows: list[dict[str, str]]) -> str:
    """A table with a column for each repository."""
    names = [row["repository"] for row in rows]
    lines = [f"| | {' | '.join(names)} |", "|---" * (len(rows) + 1) + "|"]
    lines += [f"| {key} | {' | '.join(row[key] for row in rows)} |" for key in rows[0] if key != "repository"]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
