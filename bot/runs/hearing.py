"""A run's voice messages are listened to before the agent begins, and what they say is kept with the run.

For manager.py. So a restart finds the words in the run's row and no service is paid twice, and what could not be heard
is told once, with the answer.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from bot.store import runs
from bot.store.encoding import to_json
from bot.usage.budgets import payer_of
from harness.context import RUN_INPUT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bot.runs.active import ActiveRun
    from bot.store.retrying import PatientStore
    from bot.store.rows import RunRow
    from bot.texts.catalogue import Texts
    from bot.usage.budgets import Budgets
    from bot.voice.listener import Hearing
    from harness.context import InputFile, RunInput


class Ears:
    """hearing: asked for the words of each voice message. budgets: whoever has used theirs up is not listened to."""

    def __init__(self, store: PatientStore, hearing: Hearing, budgets: Budgets) -> None:
        self._store = store
        self._hearing = hearing
        self._budgets = budgets

    @property
    def work(self) -> bool:
        """Whether anybody listens to voice messages here."""
        return self._hearing.works

    def refusal(self, texts: Texts) -> str:
        """What somebody reads whose message nobody here listens to."""
        return texts.voice_problem["off"]

    async def listen(self, active: ActiveRun) -> None:
        """Put the words of its voice messages into the run's input; the answer will tell what was not understood."""
        run_input = RUN_INPUT.validate_json(active.row.input)
        if any(_is_new(file) for file in run_input.files):
            if await self._budgets.refusal(payer_of(active.row), active.texts) is not None:
                return  # the run is about to be refused
            run_input = await self._heard(active, run_input)
        active.view.notices += self._sentences(run_input, active.texts)

    async def _heard(self, active: ActiveRun, run_input: RunInput) -> RunInput:
        if self._hearing.works:
            active.show(active.texts.listening)
        row = active.row
        async with asyncio.TaskGroup() as listening:
            tasks = [listening.create_task(self._file(row, file)) for file in run_input.files]
        run_input = replace(run_input, files=tuple(task.result() for task in tasks))
        stored = to_json(RUN_INPUT, run_input)
        await self._store.write(lambda tx: runs.set_input(tx, row.run_id, stored))
        active.row = replace(row, input=stored)
        active.show("")
        return run_input

    async def _file(self, row: RunRow, file: InputFile) -> InputFile:
        return await self._hearing.hear(row.thread_id, file, row.speaker) if _is_new(file) else file

    def _sentences(self, run_input: RunInput, texts: Texts) -> Iterator[str]:
        """One for each reason."""
        problems = [file.voice.problem for file in run_input.files if file.voice is not None and file.voice.problem]
        for problem in dict.fromkeys(problems):
            sentence = texts.voice_problem.get(problem, texts.voice_problem["failed"])  # of another version
            yield sentence.format(limit=self._hearing.limit(problem))


def _is_new(file: InputFile) -> bool:
    """A voice message that nobody has tried to listen to."""
    return file.voice is not None and not file.voice.listened
