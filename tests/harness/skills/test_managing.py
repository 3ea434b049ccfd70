"""skill_manage in a run: what a person is shown, that exactly that is kept, and what is never asked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from harness.context import Speaker
from harness.events import ApprovalRequested, Usage
from harness.guardrails.approvals import Approval
from harness.guardrails.config import GuardrailSettings, RuleSettings
from harness.skills.editing import SkillHome, standing, write
from harness.skills.history import Version
from harness.skills.library import NO_SKILLS, SkillEditing, SkillSource
from harness.skills.tool import NOT_A_PERSON, ONLY_ADMINS, SKILL_MANAGE
from harness.skills.verdict import Level, Verdict
from harness.subagents.kinds import NEVER
from tests.harness.skills.packing import GOOD
from tests.harness.support import Bench, Script, calls, collect, context, finished, in_memory, results, said

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from harness.context import RunContext
    from harness.events import AnyRunEvent
    from harness.run.runner import HarnessRunner

ALLOW = '{"verdict": "allow", "reason": "Fine."}'
DOUBT = '{"verdict": "warn", "reason": "It talks to a server."}'
CREATE = {"action": "create", "name": "tried", "content": GOOD, "reason": "Ann wants it again."}
ADMIN = Speaker(id="telegram:9", display_name="Adm", is_admin=True)


class Desk:
    """Own skills and shared ones, and runs that propose changes."""

    harness: HarnessRunner

    def __init__(self, bench: Bench, script: Script, folder: Path) -> None:
        self.bench, self.script = bench, script
        self.own = SkillHome("mine", folder / "own", folder / "own-history")
        self.shared = SkillHome("custom", folder / "shared", folder / "shared-history")
        editing = SkillEditing(
            lambda ctx, shared: self.shared if shared else self.own, lambda ctx, shared: frozenset({"taken", "copy"})
        )
        bench.skills = SkillSource(lambda ctx: NO_SKILLS, lambda: 2000, editing)
        self.runs = 0

    def context(self, **changes: Any) -> RunContext:
        self.runs += 1
        return context(f"r{self.runs}", **{"thread": f"t{self.runs}"} | changes)

    async def proposed(self, ctx: RunContext, judged: str = ALLOW, **args: Any) -> Request:
        """A call that is put to a person."""
        self.script.steps = [calls((SKILL_MANAGE, args)), *([judged] if judged else [])]
        events = await collect(self.harness, ctx, said(f"go {ctx.run_id}"))
        assert isinstance(events[-1], ApprovalRequested), results(self.script)
        return Request(self, ctx, events)

    async def answer(self, ctx: RunContext, *judged: str, **args: Any) -> str:
        """What the model reads of a call of which nobody is asked."""
        self.script.steps = [calls((SKILL_MANAGE, args)), *judged, "done"]
        finished(await collect(self.harness, ctx, said(f"go {ctx.run_id}")))
        return str(results(self.script)[-1].content)

    async def agreed(self, judged: str = ALLOW, **args: Any) -> str:
        """What the model reads of a call that the person allows."""
        return await (await self.proposed(self.context(), judged, **args)).decided()


class Request:
    def __init__(self, editor: Desk, ctx: RunContext, events: Sequence[AnyRunEvent]) -> None:
        assert isinstance(events[-1], ApprovalRequested)
        self.event, self.events, self._editor, self._ctx = events[-1], events, editor, ctx

    async def decided(self, *, allowed: bool = True) -> str:
        """What the model reads after the decision."""
        key = (self.event.call_id, self.event.args_hash)
        self._editor.bench.approvals.decide(self.event.run_id, key, Approval(allowed, ""))
        self._editor.script.steps = ["done"]
        words = said(f"go {self._ctx.run_id}")
        finished(await collect(self._editor.harness, self._ctx, words, attempt=2, next_seq=len(self.events) + 1))
        return str(results(self._editor.script)[-1].content)


@pytest.fixture
async def editor(bench: Bench, script: Script, tmp_path: Path) -> AsyncIterator[Desk]:
    in_memory(bench)
    editor = Desk(bench, script, tmp_path)
    async with bench.open() as editor.harness:
        yield editor


async def test_what_is_shown_is_kept(editor: Desk) -> None:
    request = await editor.proposed(editor.context(), **CREATE)
    shown, coverage = request.event.args_masked, request.event.coverage
    assert shown.startswith("create tried (own)\nwhy: Ann wants it again.\ncheck: allow\n")
    assert "+1. Do it." in shown or "+Do it." in shown
    assert coverage.startswith("once:")
    assert any(isinstance(event, Usage) and event.model == "main" for event in request.events)
    assert standing(editor.own, "tried").files is None
    told = await request.decided()
    assert told.startswith("The own skill tried is kept. It is used from the next message on. This is version 1.")
    assert standing(editor.own, "tried").files == {"SKILL.md": GOOD.encode()}
    (version,) = editor.own.versions.versions("tried")
    assert (version.author, version.reason) == ("telegram:1", "Ann wants it again.")


async def test_what_is_denied_is_not_kept(editor: Desk) -> None:
    request = await editor.proposed(editor.context(), **CREATE)
    assert "did not allow it" in await request.decided(allowed=False)
    assert standing(editor.own, "tried").files is None


async def test_change_by_change_and_back(editor: Desk) -> None:
    await editor.agreed(**CREATE)
    await editor.agreed(action="patch", name="tried", old="Do it.", new="Do it well.")
    script = {"action": "write_file", "name": "tried", "file": "scripts/a.py", "content": "print(1)"}
    await editor.agreed(**script)
    await editor.agreed(action="remove_file", name="tried", file="scripts/a.py")
    await editor.agreed(action="edit", name="tried", content=GOOD.replace("Do it.", "Done."))
    history = await editor.answer(editor.context(), action="history", name="tried")
    assert [line.split(" ")[:2] for line in history.split("\n")] == [
        ["5:", "edit"],
        ["4:", "remove_file"],
        ["3:", "write_file"],
        ["2:", "patch"],
        ["1:", "create"],
    ]
    assert "-Do it well." in await editor.answer(editor.context(), action="diff", name="tried", version=2)
    told = await editor.agreed("", action="rollback", name="tried", version=3)  # which needs no opinion
    assert 'rollback", version 5' in told
    files = standing(editor.own, "tried").files
    assert files == {"SKILL.md": GOOD.replace("it.", "it well.").encode(), "scripts/a.py": b"print(1)\n"}
    assert "is deleted" in await editor.agreed("", action="delete", name="tried")
    assert standing(editor.own, "tried").files is None
    await editor.agreed("", action="rollback", name="tried", version=1)
    assert standing(editor.own, "tried").files == {"SKILL.md": GOOD.encode()}


async def test_what_the_model_doubts_waits_for_an_administrator(editor: Desk) -> None:
    request = await editor.proposed(editor.context(), DOUBT, **CREATE)
    assert "check: warn\n- judged in SKILL.md: It talks to a server." in request.event.args_masked
    told = await request.decided()
    assert "It stays off until an administrator turns it on, with /skills on tried" in told
    assert editor.own.versions.versions("tried")[-1].level == "warn"


REFUSED: tuple[tuple[dict[str, Any], list[str], str], ...] = (
    (CREATE | {"content": GOOD + "\nrm -rf /\n"}, [], "destroys in SKILL.md"),
    (CREATE, ['{"verdict": "block", "reason": "No."}'], "judged in SKILL.md: No."),
    (CREATE | {"content": "Just a text."}, [], "should begin with front matter"),
    (CREATE | {"content": GOOD.replace("tried", "other")}, [], "the folder is called tried"),
    (CREATE | {"content": GOOD + "Line.\n" * 500}, [], "fewer than 500"),
    (CREATE | {"name": "../tried"}, [], "a-z, 0-9 and single hyphens"),
    (CREATE | {"name": "taken"}, [], "is the name of another skill"),
    (CREATE | {"name": "\u0441\u043e\u0440\u0443"}, [], "looks like copy"),
    ({"action": "edit", "name": "tried", "content": GOOD}, [], "There is no skill tried here"),
    ({"action": "delete", "name": "tried"}, [], "There is no skill tried here"),
    ({"action": "rollback", "name": "tried", "version": 3}, [], "There is no version 3"),
    ({"action": "replace", "name": "tried"}, [], "action"),
    (CREATE | {"scope": "shared"}, [], ONLY_ADMINS),
)


async def test_of_what_cannot_be_nobody_is_asked(editor: Desk) -> None:
    for args, judged, reason in REFUSED:
        assert reason in await editor.answer(editor.context(), *judged, **args)
        assert standing(editor.own, "tried").files is None


async def test_a_script_that_nobody_could_judge(editor: Desk) -> None:
    await editor.agreed(**CREATE)
    script = {"action": "write_file", "name": "tried", "file": "scripts/a.py", "content": "print(1)"}
    told = await editor.answer(editor.context(), "fine", "really", **script)
    assert "not-judged in scripts/a.py" in told
    assert standing(editor.own, "tried").files == {"SKILL.md": GOOD.encode()}


async def test_what_is_too_long_to_be_read_is_made_in_steps(editor: Desk) -> None:
    await editor.agreed(**CREATE)
    long = "\n".join(f"Note {number}: nothing of interest." for number in range(500))
    args = {"action": "write_file", "name": "tried", "file": "references/a.md", "content": long}
    assert "too long to be shown" in await editor.answer(editor.context(), ALLOW, **args)
    unseen = "\u200b" * 3000  # each is written out with eight signs
    assert "too long to be shown" in await editor.answer(editor.context(), ALLOW, **args | {"content": f"a{unseen}b"})
    bomb = {"action": "patch", "name": "tried", "old": "i", "new": "x" * 90_000, "replace_all": True}
    assert "too long: at most" in await editor.answer(editor.context(), **bomb)


async def test_files_are_within_the_skill(editor: Desk) -> None:
    await editor.agreed(**CREATE)
    for file in ("../other/SKILL.md", "/etc/passwd", "a.md", "references", "scripts/../../x", ""):
        args = {"action": "write_file", "name": "tried", "file": file, "content": "x"}
        assert "Give the file's path within the skill" in await editor.answer(editor.context(), **args)


async def test_a_decision_is_void_when_the_skill_changed_meanwhile(editor: Desk) -> None:
    await editor.agreed(**CREATE)
    patch = {"action": "patch", "name": "tried", "old": "Do", "new": "Try"}
    request = await editor.proposed(editor.context(), **patch)
    base, other = standing(editor.own, "tried").digest, {"SKILL.md": GOOD.replace("Do", "Do not do").encode()}
    stamp = Version(at="2026-01-01T00:00:00+00:00", action="edit")
    write(editor.own, "tried", other, base=base, change=stamp, verdict=Verdict(Level.ALLOW))
    assert "has changed since a person decided on it" in await request.decided()
    assert standing(editor.own, "tried").files == other


async def test_a_change_that_was_made_before_a_crash_is_not_made_twice(editor: Desk) -> None:
    request = await editor.proposed(editor.context(), **CREATE)
    stamp = Version(at="2026-01-01T00:00:00+00:00", action="create", call=request.event.call_id)
    files = {"SKILL.md": GOOD.encode()}
    write(editor.own, "tried", files, base="", change=stamp, verdict=Verdict(Level.ALLOW))
    assert "The own skill tried is kept." in await request.decided()
    assert len(editor.own.versions.versions("tried")) == 1


async def test_shared_ones_are_for_administrators(editor: Desk) -> None:
    args = CREATE | {"scope": "shared"}
    request = await editor.proposed(editor.context(is_group=True), **args)
    assert request.event.coverage.startswith("admins:")
    assert request.event.args_masked.startswith("create tried (shared)")
    await request.decided(allowed=False)
    request = await editor.proposed(editor.context(speaker=ADMIN), "", **args)
    assert request.event.coverage.startswith("admins:")
    await request.decided()
    assert standing(editor.shared, "tried").files == {"SKILL.md": GOOD.encode()}
    assert standing(editor.own, "tried").files is None


async def test_a_rule_may_allow_own_ones_and_never_shared_ones_of_others(editor: Desk) -> None:
    editor.bench.guardrails = GuardrailSettings(rules=(RuleSettings(tool=SKILL_MANAGE, decision="allow"),))
    async with editor.bench.open() as editor.harness:
        assert "is kept" in await editor.answer(editor.context(), ALLOW, **CREATE)
        request = await editor.proposed(editor.context(is_group=True), **CREATE, scope="shared")
        assert request.event.coverage.startswith("admins:")
    editor.bench.guardrails = GuardrailSettings(rules=(RuleSettings(tool=SKILL_MANAGE, decision="deny"),))
    async with editor.bench.open() as editor.harness:
        assert "rules deny it" in await editor.answer(editor.context(), **CREATE)


async def test_only_persons_have_skills_changed(editor: Desk) -> None:
    nobody = Speaker(id="telegram:1", display_name="A channel", is_person=False)
    assert await editor.answer(editor.context(speaker=nobody), **CREATE) == NOT_A_PERSON


async def test_secrets_and_hidden_signs_are_shown_as_what_they_are(editor: Desk) -> None:
    content = GOOD + "\nUse ghp_abcdefgh12345678ijkl, token=$(id) and \u200bthis.\n"
    request = await editor.proposed(editor.context(), **CREATE | {"content": content})
    assert "abcdefgh12345678" not in request.event.args_masked
    assert "token=$(id)" in request.event.args_masked, "what a shell would run is never hidden"
    assert "\\u{200B}" in request.event.args_masked


async def test_without_the_setting_there_is_no_such_tool(editor: Desk) -> None:
    editor.bench.skills = SkillSource(lambda ctx: NO_SKILLS, lambda: 2000)
    async with editor.bench.open() as editor.harness:
        await editor.answer(editor.context(), **CREATE)
    assert SKILL_MANAGE not in json.dumps(editor.script.tool_names)
    assert SKILL_MANAGE in NEVER
