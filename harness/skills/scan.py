"""The static check of a skill's files, for installing, changing and validating skills. Blocking.

Defence in depth: what a skill makes the agent do still passes the guardrails and runs in the sandbox. No model is
called here, nothing is executed, no link is followed, and anything unreadable counts against the skill.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from harness.skills.files import read_tree, tree_of
from harness.skills.scanning.code import DESTRUCTIVE, DISGUISES, REMOTE, SENDING
from harness.skills.scanning.imports import modules_near, unknown_imports
from harness.skills.scanning.kinds import DATA, MACROS, NOTEBOOK, PROSE, Form, extension, is_script, kind_of, program
from harness.skills.scanning.rules import compiled
from harness.skills.scanning.texts import Place, blobs, cells_of, decode, hidden_findings, speech, text_of
from harness.skills.scanning.words import SECRETS, WORDS
from harness.skills.verdict import Finding, Level, Verdict, verdict_of
from harness.text.plain import one_line
from sandbox.shell.audit import Verdict as Assessed
from sandbox.shell.audit import assess

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

    from harness.skills.files import Tree
    from harness.skills.scanning.rules import Rule
    from harness.skills.scanning.texts import Text

RULES = (*WORDS, *SECRETS, *DESTRUCTIVE, *REMOTE, *SENDING, *DISGUISES)
LARGEST_TEXT = 1_000_000
"""Bytes of the longest text that people can be asked to review."""
MOST_OF_A_RULE = 3
"""Findings of one rule in one file."""
MOST_COMMANDS = 3000
"""Lines of shell that are parsed as the shell would; a skill with more gets a warning."""
LONGEST_EXCERPT = 120
DEEPEST = 2
"""Levels of nested encoding that are decoded."""

_PROMPT = re.compile(r"^\s*(?:[$#>]\s+)?")
_USED = re.compile(r"\$\{?(\w+)")
_ASSIGNED = re.compile(
    r"(?:^|[;&|\s])(?P<name>[A-Za-z_]\w*)=(?:(?P<quote>[\"']?)(?P<value>[^\s\"'$`;&|()<>]{1,60})(?P=quote)(?=[\s;&|)]|$))?"
)
"""A shell variable assignment. value: None if it cannot be determined."""
_SPAN = re.compile(r"`([^`\n]{4,300})`")
_PLAIN = frozenset({"delete-root", "format-disk", "fill-disk", "download-and-run", "reverse-shell", "fork-bomb"})
"""Findings of the audit that count in a sentence too, which may name a command without wanting it run."""
_IGNORED = frozenset({"unreadable", "package", "upload", "privilege", "empty-folder", "wide-rights"})
"""Findings of the audit that are ignored: unparsable lines, and those covered better by the rules here."""


def scan(folder: Path) -> Verdict:
    """Check everything in a folder. Takes milliseconds for an ordinary skill, a few seconds for the largest."""
    return _verdict(read_tree(folder))


def scan_files(files: Mapping[str, bytes]) -> Verdict:
    """Check a folder with these files, as `scan` does."""
    return _verdict(tree_of(files))


def _verdict(tree: Tree) -> Verdict:
    findings, scripts = list(tree.findings), []
    if "SKILL.md" not in tree.files:
        findings.append(Finding(Level.BLOCK, "no-skill-file", "SKILL.md"))
    commands = 0
    for path, data in tree.files.items():
        if is_script(path, data):
            scripts.append(path)
        found, count = _file_findings(path, data, MOST_COMMANDS - commands, tree.files)
        findings += found
        commands += count
    return verdict_of(_bounded(findings), scripts)


def _file_findings(path: str, data: bytes, most_commands: int, files: Collection[str]) -> tuple[list[Finding], int]:
    """Findings of one file, and the number of shell lines parsed for them. files: paths of all files."""
    kind = kind_of(path, data)
    match kind.form:
        case Form.PROGRAM:
            return [Finding(Level.BLOCK, "program", path, excerpt=kind.detail)], 0
        case Form.ARCHIVE:
            return [Finding(Level.BLOCK, "archive", path)], 0
        case Form.ACTIVE:
            level = Level.BLOCK if kind.detail == MACROS else Level.WARN
            return [Finding(level, "active-document", path, excerpt=kind.detail)], 0
        case Form.ASSET:
            return list(_asset_findings(path, data)), 0
    findings = []
    if path.startswith("scripts/") and not is_script(path, data) and extension(path) not in PROSE | DATA:
        findings.append(Finding(Level.WARN, "unknown-script", path))
    if kind.form is not Form.TEXT:
        findings.append(Finding(Level.WARN, f"{kind.form.value}-file", path))
    decoded, is_utf8 = decode(data)
    if not is_utf8:
        findings.append(Finding(Level.WARN, "not-utf8", path))
    if len(data) > LARGEST_TEXT:
        findings.append(Finding(Level.WARN, "long-text", path))
    if is_utf8:
        findings += hidden_findings(path, decoded)
    text = text_of(path, data, decoded, as_script=kind.form is Form.MISNAMED)
    found, count = _content_findings(text, most_commands, files)
    if extension(path) == NOTEBOOK:
        in_cells, more = _notebook_findings(text, most_commands - count, files)
        known = {(finding.rule, finding.level) for finding in found}
        found += [finding for finding in in_cells if (finding.rule, finding.level) not in known]
        count += more
    return findings + found, count


def _content_findings(text: Text, most_commands: int, files: Collection[str]) -> tuple[list[Finding], int]:
    found, count = _command_findings(text, most_commands)
    return [*_text_findings(text), *_blob_findings(text, 0), *_import_findings(text, files), *found], count


def _notebook_findings(text: Text, most_commands: int, files: Collection[str]) -> tuple[list[Finding], int]:
    """Findings in the code of a notebook's cells, which have no lines of their own in the file."""
    cells = cells_of(text.path, text.raw)
    if cells is None:
        return [Finding(Level.WARN, "unreadable-notebook", text.path)], 0
    found, count = _content_findings(cells, most_commands, files)
    return [replace(finding, line=0) for finding in (*found, *hidden_findings(cells.path, cells.raw))], count


def _import_findings(text: Text, files: Collection[str]) -> Iterator[Finding]:
    for number, module in unknown_imports(text, modules_near(text.path, files)):
        yield Finding(Level.WARN, "unknown-import", text.path, number + 1, one_line(module, LONGEST_EXCERPT))


def _asset_findings(path: str, data: bytes) -> Iterator[Finding]:
    """Findings in a picture or document, whose bytes are read as a script: one may be hidden behind them."""
    text = text_of(path, data, data.decode("latin-1"), as_script=True)
    yield from (found for found in _text_findings(text) if found.level is Level.BLOCK and found.rule != "secret")
    if path.lower().endswith(".pdf") and re.search(rb"/(?:JavaScript|JS|Launch|OpenAction|EmbeddedFile)\b", data):
        yield Finding(Level.WARN, "active-document", path, excerpt="a PDF that acts")


def _text_findings(text: Text) -> Iterator[Finding]:
    starts, places = text.starts, set(text.places)
    sought = text.joined.encode("utf-8", "replace").decode()
    for rule in RULES:
        if not any(rule.level_in(place) for place in places):
            continue
        if rule.also and not compiled(rule.also).search(sought):
            continue
        count = 0
        for found in compiled(rule.pattern).finditer(sought):
            matched = found.group()
            offset = found.start() + len(matched) - len(matched.lstrip())
            finding = _judged(rule, text, text.line_at(starts, offset), matched)
            if finding is not None:
                yield finding
                count += 1
            if count >= MOST_OF_A_RULE:
                break


def _judged(rule: Rule, text: Text, number: int, found: str) -> Finding | None:
    """A match as a finding; None if it does not count."""
    line, place = _line_of(text, number, found), text.places[number]
    level = rule.level_in(place)
    if not level or (rule.keep is not None and not rule.keep(found)):
        return None
    if level is Level.BLOCK and not rule.secret and (place & (Place.PROSE | Place.FENCED) or rule.words):
        level = Level.WARN if text.is_mention(number) else level
    excerpt = f"{found[:4]}***" if rule.secret else line
    return Finding(level, rule.name, text.path, number + 1, one_line(excerpt, LONGEST_EXCERPT))


def _line_of(text: Text, number: int, found: str) -> str:
    """The line for display; a long one from the match on."""
    line = text.lines[number].strip()
    if len(line) <= LONGEST_EXCERPT:
        return line
    start = max(line.find(found.split("\n")[0][:40]) - 20, 0)
    return line[start : start + LONGEST_EXCERPT]


def _blob_findings(text: Text, depth: int) -> Iterator[Finding]:
    """Findings in encoded data, which is decoded and checked like any text."""
    joined, starts = text.joined, text.starts
    for blob in blobs(joined):
        number = text.line_at(starts, blob.offset)
        kind = program(blob.data)
        if kind and len(blob.data) > 64:
            yield Finding(Level.BLOCK, "encoded-program", text.path, number + 1, kind)
        said = speech(blob.data)
        if said:
            inner = text_of(text.path, b"", said, as_script=True)
            deeper = _blob_findings(inner, depth + 1) if depth < DEEPEST else iter(())
            for found in (*_text_findings(inner), *deeper):
                if found.level is Level.BLOCK:
                    yield Finding(Level.BLOCK, f"encoded-{found.rule}", text.path, number + 1, found.excerpt)
        elif blob.long and text.places[number] & (Place.RUN | Place.PROSE):
            yield Finding(Level.WARN, "long-blob", text.path, number + 1)


def _command_findings(text: Text, most: int) -> tuple[list[Finding], int]:
    """Findings of the command audit in lines of shell, and in commands within sentences."""
    findings, count = [], 0
    for number, command in _commands(text):
        place, line = text.places[number], text.lines[number]
        count += 1
        if count > most:
            findings.append(Finding(Level.WARN, "much-shell", text.path, number + 1))
            break
        found = assess(command)
        if found.verdict is Assessed.PASS or found.rule in _IGNORED:
            continue
        if place & Place.PROSE and found.rule not in _PLAIN:
            continue
        level = Level.BLOCK if found.verdict is Assessed.BLOCK else Level.WARN
        if level is Level.BLOCK and place & (Place.FENCED | Place.PROSE) and text.is_mention(number):
            level = Level.WARN
        findings.append(Finding(level, found.rule, text.path, number + 1, one_line(line, LONGEST_EXCERPT)))
    return findings, count


def _commands(text: Text) -> Iterator[tuple[int, str]]:
    """Line numbers and commands; variables are replaced by the values that earlier lines gave them."""
    known: dict[str, str] = {}
    for number, line in enumerate(text.lines):
        place = text.places[number]
        if place & Place.SHELL and line.strip() and not line.lstrip().startswith("#"):
            command = _PROMPT.sub("", line)
            used = dict.fromkeys(_USED.findall(command))
            yield number, "".join(f"{name}={known[name]}; " for name in used if name in known) + command
            for found in _ASSIGNED.finditer(command):
                if found["value"]:
                    known[found["name"]] = found["value"]
                else:
                    known.pop(found["name"], None)
        elif place & Place.PROSE and "`" in line:
            yield from ((number, found) for found in _SPAN.findall(line) if " " in found.strip())


def _bounded(findings: list[Finding]) -> Iterator[Finding]:
    counts: Counter[tuple[str, str, Level]] = Counter()
    for finding in dict.fromkeys(findings):
        key = (finding.rule, finding.file, finding.level)
        counts[key] += 1
        if counts[key] <= MOST_OF_A_RULE:
            yield finding
