"""Records of literature: read from BibTeX, RIS, CSV and JSON, and known again when another search finds them too."""

from __future__ import annotations

import csv
import json
import re
import sys
import unicodedata
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FIELDS = ("title", "authors", "year", "venue", "doi", "url", "abstract")
NAMES = {
    "title": ("title", "TI", "T1", "article title", "document title"),
    "authors": ("authors", "author", "AU", "A1"),
    "year": ("year", "PY", "Y1", "DA", "date", "publication year"),
    "venue": ("venue", "journal", "booktitle", "JO", "JF", "T2", "JA", "source title", "journal/book"),
    "doi": ("doi", "DO"),
    "url": ("url", "UR", "link"),
    "abstract": ("abstract", "AB", "N2"),
}


def stop(problem: str, fix: str) -> NoReturn:
    """Ends the script with one line that says what to do."""
    sys.exit(f"error: {problem}\n  fix: {fix}")


def read(path: Path) -> list[dict[str, str]]:
    """All records of an export; ends the script when there is none."""
    if not path.is_file():
        stop(f"there is no file {path}", "look with: ls /mnt/user-data/uploads /mnt/user-data/workspace")
    text = path.read_text(encoding="utf-8-sig", errors="replace")
    readers = {".bib": _bibtex, ".ris": _ris, ".nbib": _ris, ".csv": _csv, ".json": _json}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        stop(f"{path.name} is no export that can be read", f"give one of: {', '.join(readers)}")
    found = [cleaned(each) for each in reader(text)]
    kept = [each for each in found if each["title"]]
    if not kept:
        stop(f"{path.name} has no record with a title", "look at it with head; columns or tags may have other names")
    return kept


def cleaned(raw: dict[str, Any]) -> dict[str, str]:
    """One record with our fields, whatever they were called."""
    lower = {str(key).lower(): value for key, value in raw.items()}
    record = {}
    for name in FIELDS:
        values = (lower.get(alias.lower()) for alias in NAMES[name])
        value = next((each for each in values if each not in (None, "")), "")
        text = "; ".join(map(str, value)) if isinstance(value, list) else str(value)
        record[name] = " ".join(re.sub(r"[{}]", "", text).split())
    record["year"] = (re.search(r"(?:19|20)\d{2}", record["year"]) or [""])[0]
    record["doi"] = re.sub(r"^(?:https?://(?:dx\.)?doi\.org/|doi:\s*)", "", record["doi"].lower())
    return record


def _bibtex(text: str) -> Iterator[dict[str, Any]]:
    for entry in re.split(r"(?m)^\s*@(?=\w+\s*\{)", text)[1:]:
        fields = re.findall(r"(?s)([\w-]+)\s*=\s*(\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}|\"[^\"]*\"|\w+)", entry)
        yield {name.lower(): value.strip('"') for name, value in fields}


def _ris(text: str) -> Iterator[dict[str, Any]]:
    record: dict[str, Any] = {}
    for line in text.splitlines():
        found = re.match(r"^([A-Z][A-Z0-9]{1,3})\s*- ?(.*)$", line)
        if found is None:
            continue
        tag, value = found[1], found[2].strip()
        if tag in ("TY", "PMID") and record:
            yield record
            record = {}
        if tag in ("AU", "A1"):
            record.setdefault("AU", []).append(value)
        elif value:
            record.setdefault({"DP": "PY", "JT": "JO", "LID": "DO"}.get(tag, tag), value.removesuffix(" [doi]"))
    if record:
        yield record


def _csv(text: str) -> Iterator[dict[str, Any]]:
    lines = text.splitlines()
    separator = max(",;\t", key=lines[0].count) if lines else ","
    yield from csv.DictReader(lines, delimiter=separator)


def _json(text: str) -> Iterator[dict[str, Any]]:
    try:
        loaded = json.loads(text)
    except ValueError as error:
        stop(f"this is not valid JSON: {error}", "write a list of objects with title, authors, year, doi, url")
    if isinstance(loaded, dict):
        loaded = next((value for value in loaded.values() if isinstance(value, list)), [loaded])
    yield from (each for each in loaded if isinstance(each, dict))


def plain_title(title: str) -> str:
    """Letters and digits only, so that spelling and signs do not matter."""
    text = unicodedata.normalize("NFKD", title).casefold()
    return "".join(sign for sign in text if sign.isalnum())


def is_same(one: dict[str, str], other: dict[str, str]) -> bool:
    """The same work: one DOI; or one title in years that differ by at most one (preprint and print)."""
    if one["doi"] and other["doi"]:
        return one["doi"] == other["doi"]
    if plain_title(one["title"]) != plain_title(other["title"]):
        return False
    return not (one["year"] and other["year"]) or abs(int(one["year"]) - int(other["year"])) <= 1
