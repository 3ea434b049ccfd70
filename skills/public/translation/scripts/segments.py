"""Takes the text out of a file, checks its translation, puts it back: segments.py extract | check | build."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import plain
from checks import consistency, segment_findings

if TYPE_CHECKING:
    from collections.abc import Callable

OFFICE = (".docx", ".pptx")
KINDS = (*OFFICE, *plain.READERS)
PER_PART = 60
"""Segments in one file to read: what can be translated in one go."""


class Failed(Exception):
    """The text says why, and what to do."""


@dataclass
class Opened:
    """texts: of each place in the file, "" where there is nothing to translate. write: the file with translations by
    their places. seconds: of subtitles."""

    texts: list[str]
    write: Callable[[dict[int, str], Path], None]
    seconds: list[float]


def opened(path: Path) -> Opened:
    """Raises Failed."""
    kind = path.suffix.lower()
    if not path.is_file():
        raise Failed(f"{path} does not exist")
    if kind not in KINDS:
        raise Failed(f"{kind or path.name} is not taken apart here; there are {', '.join(KINDS)}: convert it first")
    try:
        return _office(path) if kind in OFFICE else _plain(path)
    except (BadZipFile, KeyError, ValueError, OSError) as error:
        raise Failed(f"{path.name} cannot be read: {error}") from None


def _plain(path: Path) -> Opened:
    parts, written = plain.read(path)

    def write(done: dict[int, str], target: Path) -> None:
        target.write_text(written(done), encoding="utf-8")

    return Opened([part.text for part in parts], write, [part.seconds for part in parts])


def _office(path: Path) -> Opened:
    import office

    paragraphs, save = (office.docx if path.suffix.lower() == ".docx" else office.pptx)(path)

    def write(done: dict[int, str], target: Path) -> None:
        for at, text in done.items():
            paragraphs[at].replace(text)
        save(str(target))

    return Opened([each.text for each in paragraphs], write, [0.0] * len(paragraphs))


def extract(options: argparse.Namespace) -> int:
    """The same text in several places is one segment."""
    found = opened(options.file)
    places: dict[str, list[int]] = {}
    for at, text in enumerate(found.texts):
        if text.strip():
            places.setdefault(text.strip(), []).append(at)
    segments = [
        {"id": number, "source": text, "places": spots, "seconds": found.seconds[spots[0]]}
        for number, (text, spots) in enumerate(places.items(), 1)
    ]
    if not segments:
        raise Failed(f"{options.file.name} has no text to translate")
    options.work.mkdir(parents=True, exist_ok=True)
    whole = {"file": str(options.file.resolve()), "segments": segments}
    (options.work / "source.json").write_text(json.dumps(whole, ensure_ascii=False, indent=1), encoding="utf-8")
    count = -(-len(segments) // PER_PART)
    for part in range(count):
        lines = [f"[{each['id']}] {each['source']}" for each in segments[part * PER_PART : (part + 1) * PER_PART]]
        (options.work / f"source-{part + 1}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    words = sum(len(str(each["source"]).split()) for each in segments)
    repeated = sum(map(len, places.values())) - len(segments)
    print(f"{len(segments)} segments, {words} words, {repeated} repetitions; read {options.work}/source-1.md", end="")
    print(f" to source-{count}.md" if count > 1 else "", 'and write target-1.json: {"1": "...", ...}')
    return 0


def loaded(work: Path) -> tuple[dict[str, Any], dict[int, str], list[str]]:
    """What was extracted, the translations by segment, and what is wrong with the files. Raises Failed."""
    whole = _json(work / "source.json")
    known = {segment["id"] for segment in whole["segments"]}
    done: dict[int, str] = {}
    problems = []
    for path in sorted(work.glob("target-*.json")):
        for key, text in _json(path).items():
            if not key.isdigit() or int(key) not in known or not isinstance(text, str):
                problems.append(f'error: {path.name}: "{key}" is no segment, or its translation no text')
            elif int(key) in done and done[int(key)] != text:
                problems.append(f"error: segment {key}: stands in two files with different translations")
            else:
                done[int(key)] = text
    return whole, done, problems


def _json(path: Path) -> Any:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise Failed(f"{path} does not exist") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise Failed(f"{path} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise Failed(f"{path} has to be an object in braces")
    return value


def findings(work: Path, glossary: dict[str, Any]) -> list[str]:
    """Lines that begin with "error" or "warning". Raises Failed."""
    whole, done, problems = loaded(work)
    missing = [segment["id"] for segment in whole["segments"] if segment["id"] not in done]
    if missing:
        problems.append(f"error: {len(missing)} segments have no translation: {', '.join(map(str, missing[:30]))}")
    pairs = []
    for segment in whole["segments"]:
        if segment["id"] in done:
            target = done[segment["id"]]
            pairs.append((segment["id"], segment["source"], target))
            for level, text in segment_findings(segment["source"], target, glossary, segment["seconds"]):
                problems.append(f"{level}: segment {segment['id']}: {text}")
    return problems + [f"warning: {text}" for text in consistency(pairs)]


def check(options: argparse.Namespace) -> int:
    problems = findings(options.work, _json(options.glossary) if options.glossary else {})
    errors = sum(problem.startswith("error") for problem in problems)
    print("\n".join(sorted(problems, key=lambda each: not each.startswith("error"))), end="\n" if problems else "")
    print(f"{errors} errors, {len(problems) - errors} warnings.")
    return 1 if errors else 0


def build(options: argparse.Namespace) -> int:
    """Only of a translation without errors."""
    errors = [each for each in findings(options.work, {}) if each.startswith("error")]
    if errors:
        raise Failed("nothing was written, there are errors:\n" + "\n".join(errors))
    whole, done, _ = loaded(options.work)
    source = Path(whole["file"])
    if options.output.suffix.lower() != source.suffix.lower():
        raise Failed(f"the output has to end in {source.suffix}, as the source")
    if options.output.resolve() == source:
        raise Failed("the output would replace the source; give it another name")
    found = opened(source)
    by_place = {}
    for segment in whole["segments"]:
        for at in segment["places"]:
            text = found.texts[at]
            if text.strip() != segment["source"]:
                raise Failed(f"{source.name} has changed since it was taken apart: extract it again")
            start = len(text) - len(text.lstrip())
            by_place[at] = text[:start] + done[segment["id"]].strip() + text[len(text.rstrip()) :]
    options.output.parent.mkdir(parents=True, exist_ok=True)
    found.write(by_place, options.output)
    print(f"{options.output}: {len(done)} segments in {len(by_place)} places")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Translates files in place: takes text out, checks it, puts it back.")
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("extract", help=f"a file's text, in numbered segments ({', '.join(KINDS)})")
    one.add_argument("file", type=Path)
    one.add_argument("-o", "--work", type=Path, required=True, help="a folder in the workspace")
    two = commands.add_parser("check", help="numbers, tags, terms, lengths of the translation")
    two.add_argument("work", type=Path)
    two.add_argument("--glossary", type=Path, help="terms and what is not translated, as JSON")
    three = commands.add_parser("build", help="the file in the other language")
    three.add_argument("work", type=Path)
    three.add_argument("-o", "--output", type=Path, required=True, help="below /mnt/user-data/outputs")
    for command, run in ((one, extract), (two, check), (three, build)):
        command.set_defaults(run=run)
    options = parser.parse_args()
    try:
        code: int = options.run(options)
    except Failed as error:
        print(error, file=sys.stderr)
        return 1
    return code


if __name__ == "__main__":
    sys.exit(main())
