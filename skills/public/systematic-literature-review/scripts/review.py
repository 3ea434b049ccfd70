"""Keeps the books of a literature review: what was found where, what is a duplicate, what was excluded and why.

review.py start "In adults with X, does A improve B?" --exclude "E1=wrong population" --exclude "E2=no comparison"
review.py import pubmed.ris --from PubMed --query '(X) AND (A)'       also .bib, .nbib, .csv, .json
review.py add --from "web search" --title "..." --year 2024 --doi 10.1000/x --url https://...
review.py list --stage title                       what is to be decided, with abstracts
review.py screen R3 R5 --stage title --decision exclude --reason E1        include, unsure; at full text: not-retrieved
review.py extract R7 --set "n=120" --set "effect=SMD 0.31 (0.10 to 0.52)" --risk low --why "concealed, blinded"
review.py flow --output flow.png                   PRISMA numbers; --output draws them
review.py table --output studies.csv               one row for each included study
"""

from __future__ import annotations

import argparse
import csv
import json
from datetime import date
from pathlib import Path
from typing import Any

from _flow import decision, draw, in_words, numbers
from _records import FIELDS, cleaned, is_same, plain_title, read, stop

DEFAULT = Path("/mnt/user-data/workspace/review/review.json")
SHOWN = 20
STAGES = ("title", "full")
RISKS = ("low", "some", "high", "unclear")


def main() -> None:
    args = _parser().parse_args()
    if args.command == "start":
        return _start(args)
    if not args.store.is_file():
        stop(f"there is no review at {args.store}", 'begin one: review.py start "the question" --exclude "E1=..."')
    review = json.loads(args.store.read_text(encoding="utf-8"))
    commands = {
        "import": _import,
        "add": _add,
        "list": _list,
        "screen": _screen,
        "extract": _extract,
        "flow": _flow,
        "table": _table,
    }
    commands[args.command](review, args)
    return _save(args.store, review)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, default=DEFAULT, help=f"default {DEFAULT}")
    commands = parser.add_subparsers(dest="command", required=True)
    start = commands.add_parser("start", help="begin")
    start.add_argument("question")
    start.add_argument(
        "--exclude", action="append", default=[], metavar="E1=REASON", help="reasons, in order of checking"
    )
    imported = commands.add_parser("import", help="an export of a database")
    imported.add_argument("file", type=Path)
    imported.add_argument("--from", dest="source", required=True, help="which database or search")
    imported.add_argument("--query", default="", help="as it was sent")
    add = commands.add_parser("add", help="one record")
    add.add_argument("--from", dest="source", required=True)
    for name in FIELDS:
        add.add_argument(f"--{name}", default="", required=name == "title")
    shown = commands.add_parser("list", help="what is to be decided")
    shown.add_argument("--stage", choices=STAGES, required=True)
    shown.add_argument("--limit", type=int, default=SHOWN)
    screen = commands.add_parser("screen", help="decide")
    screen.add_argument("ids", nargs="+", metavar="R1")
    screen.add_argument("--stage", choices=STAGES, required=True)
    screen.add_argument("--decision", choices=("include", "exclude", "unsure", "not-retrieved"), required=True)
    screen.add_argument("--reason", default="", help="of an exclusion: E1, ...")
    extract = commands.add_parser("extract", help="what an included study says")
    extract.add_argument("id", metavar="R1")
    extract.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    extract.add_argument("--risk", choices=RISKS, help="of bias")
    extract.add_argument("--why", default="")
    commands.add_parser("flow", help="numbers").add_argument("--output", type=Path, help="a .png")
    commands.add_parser("table", help="of the studies").add_argument(
        "--output", type=Path, required=True, help="a .csv"
    )
    return parser


def _save(path: Path, review: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".tmp")
    beside.write_text(json.dumps(review, ensure_ascii=False, indent=1), encoding="utf-8")
    beside.replace(path)


def _start(args: argparse.Namespace) -> None:
    if args.store.exists():
        stop(f"there is a review at {args.store}", "go on with it, or give another --store")
    reasons = dict(each.partition("=")[::2] for each in args.exclude)
    if not reasons or not all(reasons.values()):
        stop(
            "no reasons for exclusion", 'fix them before searching: --exclude "E1=wrong population" --exclude "E2=..."'
        )
    _save(
        args.store,
        {
            "question": args.question,
            "started": date.today().isoformat(),
            "reasons": reasons,
            "searches": [],
            "records": {},
        },
    )
    print("\n".join(f"{name}: {reason}" for name, reason in reasons.items()))


class _Known:
    """The records, by what they are known again by."""

    def __init__(self, records: dict[str, dict[str, Any]]) -> None:
        self.records = records
        self.by_key: dict[str, list[str]] = {}
        for id_, record in records.items():
            self._note(id_, record)

    def _note(self, id_: str, record: dict[str, Any]) -> None:
        for key in {record["doi"], plain_title(record["title"])} - {""}:
            self.by_key.setdefault(key, []).append(id_)

    def put(self, record: dict[str, str], source: str) -> tuple[str, bool]:
        """Its id, and whether it is new. A known one keeps where else it was found, and takes over what it lacks."""
        candidates = [*self.by_key.get(record["doi"], ()), *self.by_key.get(plain_title(record["title"]), ())]
        for id_ in candidates:
            known = self.records[id_]
            if is_same(known, record):
                known["from"].append(source)
                known.update({name: record[name] for name in FIELDS if not known[name]})
                return id_, False
        id_ = f"R{len(self.records) + 1}"
        self.records[id_] = {**record, "from": [source]}
        self._note(id_, record)
        return id_, True


def _import(review: dict[str, Any], args: argparse.Namespace) -> None:
    found, known = read(args.file), _Known(review["records"])
    new = sum(known.put(record, args.source)[1] for record in found)
    search = {"source": args.source, "query": args.query, "date": date.today().isoformat(), "found": len(found)}
    review["searches"].append(search)
    print(f"{len(found)} records from {args.source}: {new} new, {len(found) - new} known already")


def _add(review: dict[str, Any], args: argparse.Namespace) -> None:
    record = cleaned({name: getattr(args, name) for name in FIELDS})
    id_, new = _Known(review["records"]).put(record, args.source)
    print(id_ if new else f"known already: {id_}")


def _waiting(review: dict[str, Any], stage: str) -> list[str]:
    """What a stage has to decide: at the full text also what is unsure."""
    records = review["records"].items()
    if stage == "title":
        return [id_ for id_, record in records if not decision(record, "title")]
    passed = (id_ for id_, record in records if decision(record, "title") in ("include", "unsure"))
    return [id_ for id_ in passed if decision(review["records"][id_], "full") in ("", "unsure")]


def _list(review: dict[str, Any], args: argparse.Namespace) -> None:
    waiting = _waiting(review, args.stage)
    for id_ in waiting[: args.limit]:
        record = review["records"][id_]
        print(f"{id_} ({record['year'] or 'no year'}) {record['title']} | {record['authors'][:60]} | {record['venue']}")
        abstract = record["abstract"][:600] or "[no abstract: look it up before excluding]"
        print(f"   {record['doi'] or record['url']}\n   {abstract}")
    more = f"; the first {args.limit} are shown" if len(waiting) > args.limit else ""
    print(f"{len(waiting)} to decide at stage {args.stage}{more}")


def _screen(review: dict[str, Any], args: argparse.Namespace) -> None:
    if args.decision == "exclude" and args.reason not in review["reasons"]:
        stop(f"an exclusion needs a reason, not {args.reason!r}", f"use one of: {review['reasons']}")
    if args.decision == "not-retrieved" and args.stage == "title":
        stop("not-retrieved is said of full texts", "use --stage full")
    for id_ in args.ids:
        record = _record(review, id_)
        if args.stage == "full" and decision(record, "title") not in ("include", "unsure"):
            stop(f"{id_} did not pass the titles", "screen it there first")
    for id_ in args.ids:
        reason = review["reasons"].get(args.reason, "")
        review["records"][id_][f"{args.stage}_screen"] = {"decision": args.decision, "reason": reason}
    print(f"{len(args.ids)} decided; {len(_waiting(review, args.stage))} left at stage {args.stage}")


def _record(review: dict[str, Any], id_: str) -> dict[str, Any]:
    if id_ not in review["records"]:
        stop(f"there is no record {id_}", f"there are R1 to R{len(review['records'])}")
    record: dict[str, Any] = review["records"][id_]
    return record


def _extract(review: dict[str, Any], args: argparse.Namespace) -> None:
    record = _record(review, args.id)
    if decision(record, "full") != "include":
        stop(f"{args.id} is not included", f"decide first: screen {args.id} --stage full --decision include")
    values = dict(each.partition("=")[::2] for each in args.set)
    if not all(values.values()):
        stop("a value is empty", 'give --set "name=value"; what a study does not report is "not reported"')
    record.setdefault("extracted", {}).update(values)
    if args.risk:
        record["risk"] = {"risk": args.risk, "why": args.why}
        if not args.why:
            stop("a judgement of bias needs its reason", "give --why")
    print(f"{args.id}: {len(record['extracted'])} values" + (f", risk of bias {args.risk}" if args.risk else ""))


def _flow(review: dict[str, Any], args: argparse.Namespace) -> None:
    flow = numbers(review)
    print(in_words(flow))
    if args.output:
        draw(flow, args.output)
        print(f"drawn: {args.output}")


def _table(review: dict[str, Any], args: argparse.Namespace) -> None:
    included = {id_: record for id_, record in review["records"].items() if decision(record, "full") == "include"}
    if not included:
        stop("no study is included yet", "decide at stage full first")
    names = list(dict.fromkeys(name for record in included.values() for name in record.get("extracted", {})))
    args.output.parent.mkdir(parents=True, exist_ok=True)
    with args.output.open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "authors", "year", "title", "doi", *names, "risk of bias", "reason"])
        for id_, record in included.items():
            values = [record.get("extracted", {}).get(name, "") for name in names]
            risk = record.get("risk", {})
            head = [id_, *(record[name] for name in ("authors", "year", "title", "doi"))]
            writer.writerow([*head, *values, risk.get("risk", ""), risk.get("why", "")])
    gaps = [
        f"{id_} lacks {name}"
        for id_, record in included.items()
        for name in names
        if name not in record.get("extracted", {})
    ]
    gaps += [f"{id_} has no judgement of bias" for id_, record in included.items() if "risk" not in record]
    print("\n".join([f"{args.output}: {len(included)} studies, {len(names)} fields", *gaps]))


if __name__ == "__main__":
    main()
