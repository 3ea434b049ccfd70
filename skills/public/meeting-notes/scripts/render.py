"""The notes as files: python3 render.py notes.json -o /mnt/user-data/outputs/notes writes .md, .docx and .ics."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calendar_file import calendar
from check import findings, load
from word_file import write_docx

if TYPE_CHECKING:
    from collections.abc import Iterator

LABELS = {
    "en": """Date,Participants,Absent,In short,Decisions,Actions,Open questions,Notes,What,Who,Until,Evidence,
unassigned,no date""",
    "zh": "日期,参会人,缺席,要点,决定,待办事项,待定问题,讨论记录,事项,负责人,截止,依据,未指定,无日期",
    "de": """Datum,Anwesend,Abwesend,Kurz,Beschlüsse,Aufgaben,Offene Fragen,Notizen,Was,Wer,Bis,Beleg,offen,
ohne Datum""",
    "fr": """Date,Présents,Absents,En bref,Décisions,Actions,Questions ouvertes,Notes,Quoi,Qui,Échéance,Preuve,
à attribuer,sans date""",
    "es": """Fecha,Asistentes,Ausentes,En breve,Decisiones,Acciones,Cuestiones abiertas,Notas,Qué,Quién,Plazo,Evidencia,
sin asignar,sin fecha""",
}
NAMES = """date,participants,absent,summary,decisions,actions,questions,topics,what,who,until,evidence,unassigned,
undated"""


def labels(notes: dict[str, Any]) -> dict[str, str]:
    """Headings in the language of the notes; "labels" in them gives those of other languages."""
    language = str(notes.get("language", "en")).split("-")[0]
    words = LABELS.get(language, LABELS["en"])
    own = {key.strip(): word.strip() for key, word in zip(NAMES.split(","), words.split(","), strict=True)}
    return own | {str(key): str(value) for key, value in notes.get("labels", {}).items()}


def cited(item: dict[str, Any], times: dict[str, str]) -> str:
    """Where it was said: "L12 00:03:10, L14"."""
    lines = [str(each.get("line", "")) for each in item.get("evidence") or []]
    return ", ".join(" ".join(filter(None, (line, times.get(line, "")))) for line in lines)


def markdown(notes: dict[str, Any], times: dict[str, str]) -> str:
    return "\n".join(_markdown(notes, times, labels(notes))) + "\n"


def _markdown(notes: dict[str, Any], times: dict[str, str], label: dict[str, str]) -> Iterator[str]:
    yield f"# {notes['title']}\n"
    yield f"- **{label['date']}:** {notes['date']}"
    for key in ("participants", "absent"):
        if notes.get(key):
            yield f"- **{label[key]}:** {', '.join(notes[key])}"
    yield f"\n## {label['summary']}\n"
    yield from (f"- {line}" for line in notes["summary"])
    if notes.get("decisions"):
        yield f"\n## {label['decisions']}\n"
        for number, item in enumerate(notes["decisions"], 1):
            by = f" ({item['by']})" if item.get("by") else ""
            yield f"{number}. {item['text']}{by}{_note(cited(item, times))}"
    if notes.get("actions"):
        yield f"\n## {label['actions']}\n"
        yield f"| # | {label['what']} | {label['who']} | {label['until']} | {label['evidence']} |"
        yield "|---|---|---|---|---|"
        for number, item in enumerate(notes["actions"], 1):
            who, until = item.get("owner") or label["unassigned"], item.get("due") or label["undated"]
            cells = (str(number), item["text"], who, until, cited(item, times))
            yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
    if notes.get("questions"):
        yield f"\n## {label['questions']}\n"
        for item in notes["questions"]:
            owner = f" ({item['owner']})" if item.get("owner") else ""
            yield f"- {item['text']}{owner}{_note(cited(item, times))}"
    if notes.get("topics"):
        yield f"\n## {label['topics']}"
        for topic in notes["topics"]:
            yield f"\n### {topic['heading']}\n"
            yield from (f"- {point}" for point in topic["points"])


def _note(text: str) -> str:
    return f" _[{text}]_" if text else ""


def main() -> int:
    options = _options()
    notes = load(options.notes)
    transcript = load(options.transcript) if options.transcript else None
    errors = [text for level, text in findings(notes, transcript) if level == "error"]
    if errors:
        print("Nothing was written. Put right first what check.py says:", file=sys.stderr)
        print("\n".join(f"- {each}" for each in errors), file=sys.stderr)
        return 1
    times = {line["id"]: line["at"] for line in transcript["lines"]} if transcript else {}
    base = options.output
    base.parent.mkdir(parents=True, exist_ok=True)
    written = [base.with_name(base.name + ".md"), base.with_name(base.name + ".docx")]
    written[0].write_text(markdown(notes, times), encoding="utf-8")
    write_docx(written[1], notes, labels(notes), lambda item: cited(item, times))
    dated = [item for item in notes.get("actions", []) if item.get("due")]
    if dated:
        written.append(base.with_name(base.name + ".ics"))
        text = calendar(notes, dated, now=datetime.now(UTC))
        written[-1].write_bytes(text.encode())
    for path in written:
        print(path)
    print(f"{len(dated)} of {len(notes.get('actions', []))} actions have a date and are in the calendar file.")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Writes notes.json as Markdown, Word and a calendar of due dates.")
    parser.add_argument("notes", type=Path)
    parser.add_argument("--transcript", type=Path, help="of parse.py; leave out only where there is none")
    parser.add_argument("-o", "--output", type=Path, required=True, help="path without an ending, below outputs")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
