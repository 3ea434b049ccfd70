"""Keeps the evidence of a research, so that every sentence of its report can be traced to a page that was read.

  ledger.py start "Is X worth it for Y?" --sub "What does it cost?" --sub "What do users report?" --recent 18
  ledger.py source https://example.org/a --title "..." --publisher "..." --published 2026-03 --kind official
  ledger.py claim "X costs 40 EUR a month." --sub Q1 --source S1 --quote "EUR 40 per month" --key
  ledger.py support C1 --source S2 --quote "..."      ledger.py against C1 --source S3 --quote "..."
  ledger.py settle C1 --as true|open|dropped --why "..."      ledger.py gap Q2 --why "no public figures"
  ledger.py status
  ledger.py check draft.md      ledger.py render draft.md --output /mnt/user-data/outputs/report.md

The draft cites claims and sources as [C1], [C1, S4]; a claim in dispute as [C1?].
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from _ledger import KINDS, Claim, Evidence, Ledger, Source, load, plain_url, save, stop, today
from _report import LANGUAGES, errors, old, rendered, warnings

DEFAULT = Path("/mnt/user-data/workspace/research/ledger.json")
LONGEST_QUOTE = 400
QUIET = 4
"""So many sources in a row without a new claim: more of them will hardly bring any."""


def main() -> None:
    args = _parser().parse_args()
    if args.command == "start":
        return _start(args)
    ledger = load(args.ledger)
    if args.command in ("status", "check", "render"):
        return {"status": _status, "check": _check, "render": _render}[args.command](ledger, args)
    changes = {
        "source": _source,
        "claim": _claim,
        "support": _evidence,
        "against": _evidence,
        "settle": _settle,
        "gap": _gap,
    }
    changes[args.command](ledger, args)
    return save(args.ledger, ledger)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ledger", type=Path, default=DEFAULT, help=f"default {DEFAULT}")
    commands = parser.add_subparsers(dest="command", required=True)
    start = commands.add_parser("start", help="begin; an earlier ledger is kept beside it")
    start.add_argument("question")
    start.add_argument("--sub", action="append", default=[], help="a question whose answer is needed; Q1, Q2, ...")
    start.add_argument("--recent", type=int, default=0, metavar="MONTHS", help="older sources are called old")
    source = commands.add_parser("source", help="a page or file that was read")
    source.add_argument("url", help="https://..., file:NAME or chat:NAME")
    source.add_argument("--title", required=True)
    source.add_argument("--publisher", required=True, help="who answers for it")
    source.add_argument("--published", required=True, help="2026, 2026-03, 2026-03-31 or unknown")
    source.add_argument("--kind", required=True, choices=KINDS)
    source.add_argument("--origin", default="", help="the source that it only repeats, as in S2")
    claim = commands.add_parser("claim", help="one checkable sentence, in your words")
    claim.add_argument("text")
    claim.add_argument("--sub", required=True, help="the question that it helps to answer")
    claim.add_argument("--key", action="store_true", help="the answer rests on it")
    for name in ("support", "against"):
        commands.add_parser(name, help=f"evidence {'for' if name == 'support' else 'against'} a claim").add_argument(
            "claim"
        )
    for name, required in (("claim", True), ("support", True), ("against", True)):
        commands.choices[name].add_argument("--source", required=required)
        commands.choices[name].add_argument("--quote", required=required, help="the source's own words, short")
    settle = commands.add_parser("settle", help="decide on a disputed or doubtful claim")
    settle.add_argument("claim")
    settle.add_argument("--as", dest="verdict", required=True, choices=("true", "open", "dropped"))
    settle.add_argument("--why", required=True)
    gap = commands.add_parser("gap", help="a question that cannot be answered")
    gap.add_argument("sub")
    gap.add_argument("--why", required=True)
    commands.add_parser("status", help="what is known, what is missing, whether it is enough")
    commands.add_parser("check", help="a draft against the ledger").add_argument("draft", type=Path)
    render = commands.add_parser("render", help="the draft with numbered citations and a list of sources")
    render.add_argument("draft", type=Path)
    render.add_argument("--output", type=Path, help="else it is printed")
    render.add_argument("--links", action="store_true", help="numbers are links: for an answer in the chat")
    render.add_argument("--language", choices=tuple(LANGUAGES), default="en", help="of the list of sources")
    return parser


def _start(args: argparse.Namespace) -> None:
    if args.ledger.exists():
        kept = next(p for i in range(1, 1000) if not (p := args.ledger.with_suffix(f".{i}.json")).exists())
        args.ledger.replace(kept)
        print(f"The earlier ledger is kept as {kept}")
    if not args.sub:
        stop("no questions", 'part the question: --sub "..." for each thing that has to be known')
    questions = {f"Q{i}": text for i, text in enumerate(args.sub, 1)}
    save(args.ledger, Ledger(args.question, today(), args.recent, questions))
    print("\n".join(f"{id_}: {text}" for id_, text in questions.items()))


def _source(ledger: Ledger, args: argparse.Namespace) -> None:
    url = plain_url(args.url)
    if same := next((each for each in ledger.sources.values() if each.url == url), None):
        print(f"{same.id} is that page already")
        return
    if not re.fullmatch(r"unknown|\d{4}(-\d{2}){0,2}", args.published):
        stop(f"published {args.published!r} is no date", "give 2026, 2026-03, 2026-03-31 or unknown")
    if args.origin:
        ledger.source(args.origin)
    new = Source(
        f"S{len(ledger.sources) + 1}", url, args.title, args.publisher, args.published, args.kind, today(), args.origin
    )
    ledger.sources[new.id] = new
    print("\n".join([new.id, *old(ledger, new)]))


def _claim(ledger: Ledger, args: argparse.Namespace) -> None:
    if args.sub not in ledger.questions:
        stop(f"there is no question {args.sub}", f"there are: {', '.join(ledger.questions)}")
    new = Claim(f"C{len(ledger.claims) + 1}", args.text, args.sub, args.key, [_checked(ledger, args, against=False)])
    ledger.claims[new.id] = new
    print(f"{new.id} {ledger.standing(new)}")


def _checked(ledger: Ledger, args: argparse.Namespace, *, against: bool) -> Evidence:
    ledger.source(args.source)
    quote = " ".join(args.quote.split())
    if not 8 <= len(quote) <= LONGEST_QUOTE:
        stop(
            f"the quote has {len(quote)} characters",
            f"give the decisive words of the page itself, 8 to {LONGEST_QUOTE} characters",
        )
    return Evidence(args.source, quote, against)


def _evidence(ledger: Ledger, args: argparse.Namespace) -> None:
    claim = ledger.claim(args.claim)
    claim.evidence.append(_checked(ledger, args, against=args.command == "against"))
    print(f"{claim.id} {ledger.standing(claim)}")


def _settle(ledger: Ledger, args: argparse.Namespace) -> None:
    claim = ledger.claim(args.claim)
    claim.verdict, claim.why = args.verdict, args.why
    print(f"{claim.id} {ledger.standing(claim)}")


def _gap(ledger: Ledger, args: argparse.Namespace) -> None:
    if args.sub not in ledger.questions:
        stop(f"there is no question {args.sub}", f"there are: {', '.join(ledger.questions)}")
    ledger.gaps[args.sub] = args.why
    print(f"{args.sub} stays open: say so in the report")


def _status(ledger: Ledger, args: argparse.Namespace) -> None:
    print(f"{ledger.question}\n{len(ledger.sources)} sources, {len(ledger.claims)} claims")
    missing = []
    for id_, question in ledger.questions.items():
        print(f"\n{id_}: {question}" + (f"\n  gap: {ledger.gaps[id_]}" if id_ in ledger.gaps else ""))
        claims = [claim for claim in ledger.claims.values() if claim.question == id_]
        for claim in claims:
            sources = " ".join(("-" if e.against else "") + e.source for e in claim.evidence)
            print(f"  {claim.id}{' key' if claim.key else ''} {ledger.standing(claim)} ({sources}): {claim.text}")
        if id_ not in ledger.gaps and not any(ledger.standing(c) == "confirmed" for c in claims):
            missing.append(f"{id_} has no confirmed claim")
    doubtful = [
        c for c in ledger.claims.values() if c.key and ledger.standing(c) in ("single", "disputed") and not c.verdict
    ]
    missing += [f"{c.id} is {ledger.standing(c)} and the answer rests on it" for c in doubtful]
    quiet = _quiet(ledger)
    print("\nMissing: " + ("; ".join(missing) or "nothing. It is enough: write."))
    if missing and quiet >= QUIET:
        print(f"The last {quiet} sources brought no new claim: search in another way, or record a gap and write.")


def _quiet(ledger: Ledger) -> int:
    """How many of the newest sources are the evidence of nothing."""
    used = {e.source for claim in ledger.claims.values() for e in claim.evidence}
    count = 0
    for id_ in reversed(ledger.sources):
        if id_ in used:
            break
        count += 1
    return count


def _draft(path: Path) -> str:
    if not path.is_file():
        stop(f"there is no draft {path}", "write it first, with [C1] behind what rests on claim C1")
    return path.read_text(encoding="utf-8")


def _check(ledger: Ledger, args: argparse.Namespace) -> None:
    draft = _draft(args.draft)
    wrong, doubtful = errors(ledger, draft), warnings(ledger, draft)
    print(
        "\n".join([*(f"error: {text}" for text in wrong), *(f"warning: {text}" for text in doubtful)])
        or "Everything is cited."
    )
    if wrong:
        stop(f"{len(wrong)} error(s) in {args.draft.name}", "mend the draft or the ledger, then check again")


def _render(ledger: Ledger, args: argparse.Namespace) -> None:
    draft = _draft(args.draft)
    if wrong := errors(ledger, draft):
        stop("; ".join(wrong), "mend the draft or the ledger: nothing is rendered from a draft with errors")
    text = rendered(ledger, draft, links=args.links, language=args.language)
    if args.output is None:
        print(text)
        return
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(text, encoding="utf-8")
    listed = re.findall(r"(?m)^[0-9]+[.] ", text.rpartition("## ")[2])
    print(f"{args.output}: {text.count(chr(10))} lines, {len(listed)} sources")


if __name__ == "__main__":
    main()
