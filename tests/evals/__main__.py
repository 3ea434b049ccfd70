"""`python -m tests.evals`: play situations with a model behind an OpenAI-compatible endpoint and print its scores."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.evals.evaluation import Endpoint, evaluate, scores, to_json
from tests.evals.situations import SITUATIONS, Aspect

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.evals.evaluation import Result
    from tests.evals.situations import Situation

_SHOWN = 300


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.evals", description=__doc__)
    parser.add_argument("--base-url", help="of the endpoint, such as http://127.0.0.1:8080/v1")
    parser.add_argument("--model", help="the endpoint's name of the model")
    parser.add_argument("--key-from", metavar="VARIABLE", help="the environment variable that holds the API key")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="situations or aspects; default: all")
    parser.add_argument("--list", action="store_true", help="print the situations and end")
    parser.add_argument("--context-window", type=int, default=32_000, help="of the model, in tokens")
    parser.add_argument("--max-tokens", type=int, default=2000, help="the longest answer")
    parser.add_argument("--seconds", type=float, default=300.0, help="the longest that one message may take")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was seen there")
    parser.add_argument("--least", type=float, default=0.0, help="exit with 1 when a smaller share passes (0 to 1)")
    given = parser.parse_args()
    if not given.list and not (given.base_url and given.model):
        parser.error("--base-url and --model are needed")
    if given.key_from and not os.environ.get(given.key_from):
        parser.error(f"the environment variable {given.key_from} is not set")
    return given


def chosen(names: Sequence[str]) -> list[Situation]:
    """The situations of these names or aspects. Raises ValueError for a name that there is not."""
    known = {situation.name for situation in SITUATIONS} | {aspect.value for aspect in Aspect}
    if unknown := [name for name in names if name not in known]:
        raise ValueError(f"no such situation or aspect: {', '.join(unknown)} (--list shows them)")
    return [each for each in SITUATIONS if not names or each.name in names or each.aspect.value in names]


def tell(result: Result) -> None:
    """One line for a situation that went well, more for another."""
    verdict = "passed" if result.passed else "FAILED"
    print(f"{verdict}  {result.seconds:6.1f} s  {result.situation.aspect}: {result.situation.name}", flush=True)
    if not result.passed:
        print("\n".join(f"        {problem}" for problem in result.problems))
        print(f"        answer: {' '.join(result.seen.answer.split())[:_SHOWN]!r}")


def main() -> int:
    given = options()
    try:
        situations = chosen(given.only)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if given.list:
        print("\n".join(f"{situation.aspect}: {situation.name}" for situation in situations))
        return 0
    endpoint = Endpoint(
        base_url=given.base_url,
        model=given.model,
        key=os.environ[given.key_from] if given.key_from else "",
        context_window=given.context_window,
        max_tokens=given.max_tokens,
        seconds=given.seconds,
    )
    results = asyncio.run(evaluate(endpoint, situations, tell))
    found = scores(results)
    print("\n".join(f"{name}: {passed} of {played}" for name, (passed, played) in found.items()))
    if given.json is not None:
        given.json.write_text(json.dumps(to_json(endpoint, results), indent=1, ensure_ascii=False) + "\n")
    passed, played = found["all"]
    return int(passed < given.least * played)


if __name__ == "__main__":
    sys.exit(main())
