"""Texts about a research for people, built from sentences of bot/ (`words`): the plan, the report with its sources and
its check, the summary in the chat. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from harness.research.citations import key_findings
from harness.text.plain import clean_text, cut
from harness.web.sources import UNREACHABLE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.events import ReadyFile
    from harness.research.citations import Checked
    from harness.research.config import Format
    from harness.research.plan import Estimate, Step
    from harness.research.record import Cited, Research

    Words = Mapping[str, str]

LONGEST_SHOWN = 220
"""Characters of a step's description in the chat."""
LONGEST_NAME = 60
MOST_SHOWN = 5
"""Number of files that the plan names."""
MOST_TOLD = 10
"""Number of a check's problems that are listed individually."""
_UNSAFE = re.compile(r"[^\w-]+")
_PICTURE = re.compile(r"!\[([^\]\n]{0,300})\]\((<[^<>\n]{1,500}>|[^()\s<>]{1,500})(?:[ \t]+\"[^\"\n]{0,300}\")?\)")
_MARKS = re.compile(r"([\\`*_\[\]<>#|~$&^{=])")


def plan_text(research: Research, estimate: Estimate, words: Words) -> str:
    """The plan as a message: its steps, what changed since it was last shown, and its rough cost."""
    plan, before = research.plan, research.known
    if plan is None:
        return ""
    lines = []
    for step in plan.steps:
        if step.id in research.ended_steps:
            continue
        after = words["plan_after"].format(steps=", ".join(step.depends_on)) if step.depends_on else ""
        fresh = words["plan_new"] if before is not None and step.title not in before else ""
        head = words["plan_step"].format(number=step.id, title=plain(step.title), kind=words[f"type_{step.type}"])
        lines.append(f"{head}{after}{fresh}\n{plain(cut(step.description, LONGEST_SHOWN))}")
    parts = [words["plan_head"].format(title=plain(plan.title))]
    if plan.thought:
        parts.append(plain(cut(plan.thought, LONGEST_SHOWN)))
    parts += lines
    gone = [title for title in before or () if title not in {step.title for step in plan.steps}]
    if gone:
        parts.append(words["plan_gone"].format(titles=", ".join(map(plain, gone))))
    return "\n\n".join([*parts, *_resources(research, words), _estimated(estimate, words), words["plan_hint"]])


def _resources(research: Research, words: Words) -> list[str]:
    """What it searches besides the web: the thread's files and the named collections."""
    lines = []
    if names := [plain(cut(file.name, 80)) for file in research.files]:
        more = words["plan_more"].format(count=len(names) - MOST_SHOWN) if len(names) > MOST_SHOWN else ""
        lines.append(words["plan_files"].format(names=", ".join(names[:MOST_SHOWN])) + more)
    if research.collections:
        named = ", ".join(f"@{plain(name)}" for name in research.collections)
        lines.append(words["plan_collections"].format(names=named))
    return ["\n".join(lines)] if lines else []


def _estimated(estimate: Estimate, words: Words) -> str:
    money = ""
    if estimate.money is not None:
        least, most = (f"{amount:.2f}" if amount >= 0.01 else "0.01" for amount in estimate.money)
        money = words["estimate_money"].format(least=least, most=most, currency=estimate.currency)
    return words["estimate"].format(calls=_range(*estimate.calls), minutes=_range(*estimate.minutes), money=money)


def _range(least: int, most: int) -> str:
    return str(least) if least == most else f"{least}–{most}"


def report_text(research: Research, checked: Checked, cited: Sequence[Cited], words: Words) -> str:
    """The whole report as a Markdown file: its text, its sources, the check, the failed steps."""
    title = research.plan.title if research.plan is not None else research.topic
    body = checked.text if checked.text.startswith("# ") else f"# {title}\n\n{checked.text}"
    parts = [body, f"## {words['sources']}"]
    if cited:
        parts.append("\n".join(_source(each, words) for each in cited))
    else:
        parts.append(words["no_sources"])
    parts += [f"## {words['check']}", "\n".join(f"- {line}" for line in check_lines(checked, cited, words))]
    failed = failed_lines(research, words)
    if failed:
        parts += [f"## {words['failed']}", "\n".join(failed)]
    return "\n\n".join(parts) + "\n"


def _source(cited: Cited, words: Words) -> str:
    title = plain(cited.title) or cited.address
    fetched = words["fetched"].format(date=cited.fetched_at[:16].replace("T", " "))
    gone = f" ⚠️ {words['gone'].format(why=_why(cited, words))}" if cited.gone else ""
    return f"{cited.number}. {_linked(title, cited.address)}, {fetched}{gone}"


def _why(cited: Cited, words: Words) -> str:
    return words["unreachable"] if cited.gone == UNREACHABLE else plain(cited.gone or "")


def with_charts(text: str, charts: Sequence[str], words: Words) -> str:
    """A report with these charts as its only pictures: those that it does not place are appended."""
    left = dict.fromkeys(charts)

    def placed(found: re.Match[str]) -> str:
        path = found[2].strip("<>")
        if path not in charts:
            return found[1]
        left.pop(path, None)
        return _picture(path, found[1])

    text = _PICTURE.sub(placed, text)
    if not left:
        return text
    return "\n\n".join([text, f"## {words['charts']}", *(_picture(path, _name(path)) for path in left)])


def _picture(path: str, told: str) -> str:
    return f"![{told}](<{path}>)"


def _name(path: str) -> str:
    return plain(path.rpartition("/")[2].rpartition(".")[0].replace("-", " ").replace("_", " "))


def check_lines(checked: Checked, cited: Sequence[Cited], words: Words) -> list[str]:
    """The results of the citation check, one line each."""
    lines = [words["check_cited"].format(citations=checked.citations, sources=len(checked.cited))]
    if checked.quotes:
        held = checked.quotes - len(checked.misquoted)
        lines.append(words["check_quotes"].format(held=held, quotes=checked.quotes))
    for each in checked.misquoted[:MOST_TOLD]:
        lines.append(
            words["check_misquoted"].format(words=plain(cut(each.words, LONGEST_SHOWN)), address=f"<{each.address}>")
        )
    if checked.unknown:
        lines.append(words["check_unknown"].format(count=checked.unknown))
    for address in checked.foreign[:MOST_TOLD]:
        lines.append(words["check_foreign"].format(address=f"`{address.replace('`', '')}`"))
    for page in checked.dead[:MOST_TOLD]:
        lines.append(words["check_dead"].format(address=f"<{page.first.address}>"))
    if checked.unsourced:
        lines.append(words["check_unsourced"].format(count=checked.unsourced, mark=words["unsourced"]))
    gone = [each for each in cited if each.gone]
    lines += [words["check_gone"].format(number=each.number, why=_why(each, words)) for each in gone]
    online = [each for each in cited if is_online(each.address)]
    if online and all(each.gone == "" for each in online):
        lines.append(words["check_alive"])
    if unasked := sum(each.gone is None for each in online):
        lines.append(words["check_unasked"].format(count=unasked))
    if checked.merged:
        lines.append(words["check_merged"].format(count=checked.merged))
    return lines


def failed_lines(research: Research, words: Words) -> list[str]:
    """The steps that were not completed, and why."""
    return [
        words["failed_step"].format(
            number=step.id,
            title=plain(step.title),
            why=words.get(f"why_{finding.state}", words["why_failed"]),
            detail=f" ({plain(finding.detail)})" if finding.detail else "",
        )
        for step, finding in research.failed_steps
    ]


def summary_text(
    research: Research,
    checked: Checked,
    cited: Sequence[Cited],
    words: Words,
    files: Sequence[ReadyFile],
    wanted: Sequence[Format],
) -> str:
    """The message in the chat: the title, three to five findings, the sources that they name. files: of the report.
    wanted: their formats, some of which may be missing."""
    title = research.plan.title if research.plan is not None else research.topic
    findings = key_findings(checked.text)
    told = "\n".join(f"{number}. {each}" for number, each in enumerate(findings, 1))
    named = {int(number) for number in re.findall(r"\[(\d{1,4})\]", told)}
    listed = "\n".join(f"[{each.number}] {_link(each)}" for each in cited if each.number in named)
    problems = checked.taken_out
    state = words["summary_clean"] if not problems else words["summary_problems"].format(count=problems)
    if gone := sum(bool(each.gone) for each in cited):
        state += " " + words["summary_gone"].format(count=gone)
    facts = words["summary_facts"].format(sources=len(cited), check=state)
    failed = "\n".join(failed_lines(research, words))
    end = words["summary_attached"].format(name=", ".join(plain(file.name) for file in files))
    missing = [each for each in wanted if not any(file.name.endswith(f".{each}") for file in files)]
    if missing:
        end += " " + words["summary_not_made"].format(formats=", ".join(missing))
    ask = words["summary_ask"].format(number=min(2, len(findings))) if findings else ""
    return "\n\n".join(part for part in (f"**{plain(title)}**", told, listed, facts, failed, end, ask) if part)


def _link(cited: Cited) -> str:
    return _linked(plain(cut(cited.title, 80)), cited.address) if cited.title else f"<{cited.address}>"


def file_name(title: str) -> str:
    """A name for the report's files, without extension, made from its title in any script."""
    stem = _UNSAFE.sub("-", clean_text(title)).strip("-").lower()[:LONGEST_NAME].rstrip("-")
    return stem or "report"


def plain(text: str) -> str:
    """Foreign text for Markdown, on one line and without markup."""
    return _MARKS.sub(r"\\\1", " ".join(clean_text(text).split()))


def checklist(steps: Sequence[Step], report: str) -> list[tuple[str, str]]:
    """(step's id, line) for the plan shown while the research works; the last one, with id "", is the report."""
    return [*((step.id, step.title) for step in steps), ("", report)]


def is_online(address: str) -> bool:
    """Whether it can be requested, unlike a document of the knowledge."""
    return address.startswith(("https://", "http://"))


def _linked(title: str, address: str) -> str:
    """A link; an address that no browser opens, such as a document of the knowledge, is shown as it is."""
    if is_online(address):
        return f"[{title}](<{address}>)"
    return f"{title} (`{address.replace('`', '')}`)"
