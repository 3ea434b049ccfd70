"""Opens the run of each complete turn, according to the busy policy.

All effects of a message are one transaction: its run, the buttons of its acknowledgement, the end of the run that it
stops. A crash leaves all or nothing of it, and in the latter case the message is handled again.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from bot.delivery.buttons import take_answer, take_offer, waiting_question
from bot.runs.inputs import Called, as_steering, belongs, can_join, can_steer, joined_run, place_of, run_of, steered_run
from bot.runs.research import MOST_FILES, BadOption, choice, missing_files, named_collections
from bot.runs.research import asked as research_asked
from bot.settings.busy_policies import Moment, Move, decide
from bot.store import prompts, runs
from bot.store.rows import StopReason
from bot.texts import texts_for
from bot.texts.command_line import parse
from bot.texts.markdown import plain
from channels.message import OutboundMessage
from harness.knowledge.port import Asker

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sqlalchemy import Connection

    from bot.conversations.queue import Waiting, WaitingLine
    from bot.conversations.services import ConversationPorts
    from bot.delivery.buttons import Answered
    from bot.runs.turns import Turn
    from bot.store.rows import ConversationRow, RunRow
    from channels.message import Message


class Openings:
    """Opens the runs of one conversation's turns. record: returns the stored conversation."""

    def __init__(
        self, ports: ConversationPorts, line: WaitingLine, record: Callable[[Message], Awaitable[ConversationRow]]
    ) -> None:
        self._ports = ports
        self._line = line
        self._record = record
        self._opening: asyncio.Task[None] | None = None

    async def open(self, turn: Turn, running: RunRow | None) -> RunRow | None:
        """Queue the turn, or only report that its files were refused or that voice messages are not transcribed here,
        if it consists of nothing else. Returns the current run in its new state."""
        notice = turn.not_taken()
        if notice is not None and turn.hollow:
            await self.answer(turn, notice, "files refused")
        elif turn.only_voice and not self._ports.runs.transcriber.works:
            sentence = self._ports.runs.transcriber.refusal(texts_for(turn.language))
            await self.answer(turn, OutboundMessage(text=sentence, final=True), "not listened to")
        else:
            joined = await self._restart(running, turn, notice) if running is not None else None
            if joined is not None:
                return joined
            await self._place(turn, running, notice)
        return running

    def _decide(self, turn: Turn, running: RunRow | None, *, unseen: bool = False) -> Move:
        last = self._line.last
        moment = Moment(
            running=running.speaker if running is not None else None,
            stopping=running is not None and self._ports.runs.stopping(running.run_id),
            waiting=last is not None,
            joinable=last is not None and can_join(last.row, turn),
            steerable=running is not None and self._is_heard(running, turn),
            unseen=unseen,
        )
        return decide(turn.rules.busy, moment, turn.person, turn.is_admin)

    async def _restart(self, running: RunRow, turn: Turn, notice: OutboundMessage | None) -> RunRow | None:
        """Restart the current run with this turn added, if the policy says so and it is still possible; else None."""
        unseen = self._ports.runs.unseen(running.run_id, turn.rules.join) and belongs(running, turn)
        overtakes = any(waiting.row.speaker == turn.person for waiting in self._line)
        if self._decide(turn, running, unseen=unseen and not overtakes) is not Move.RESTART:
            return None

        async def join(row: RunRow) -> RunRow:
            row = joined_run(row, turn, self._ports.background.take(row.conversation))
            await self._commit(turn, notice, lambda tx: runs.extend(tx, row.run_id, turn.ids, row.input))
            return row

        return await self._ports.runs.begin_again(running.run_id, join)

    async def _place(self, turn: Turn, running: RunRow | None, notice: OutboundMessage | None) -> None:
        last, move = self._line.last, self._decide(turn, running)
        if move is Move.JOIN and last is not None:
            await self._join(last, turn, notice)
        elif move in (Move.INTERRUPT, Move.ROLLBACK) and running is not None:
            await self._replace(running, turn, notice, _reason(move, own=running.speaker == turn.person))
        else:
            await self._add(turn, notice, waits=move is not Move.START, heard=move is Move.STEER)

    def _is_heard(self, running: RunRow, turn: Turn) -> bool:
        """Whether the turn can be added to a run at its next step. A run that waits for a person takes none."""
        hears = self._ports.runs.hears(running.run_id) and self._line.all_heard_by(running, turn.person)
        return hears and can_steer(running, turn)

    async def _add(self, turn: Turn, notice: OutboundMessage | None, *, waits: bool, heard: bool = False) -> None:
        run, told = await self._with_resources(await self._run_of(turn, len(self._line) + waits), turn)
        run, notice = as_steering(run) if heard else run, _with(notice, told)
        questions = [waiting_question(run, run.created_at)] if waits else []
        answered: list[Answered] = []

        def unit(tx: Connection) -> None:
            runs.open(tx, run)
            prompts.ensure(tx, questions)
            if turn.offer:
                take_offer(tx, turn.offer, run.run_id)
            elif not waits and not turn.schedule:
                answered[:] = take_answer(tx, run, turn.text)

        async def written() -> None:
            await self._ports.store.write_ahead(unit)
            for question in answered:
                await self._show_choice(question)

        if waits or turn.offer or notice is not None:
            await self._commit(turn, notice, unit)
        else:  # it starts at once, in the same commit
            self._opening = self._ports.tasks.spawn(f"{run.run_id}:open", written())
            await asyncio.sleep(0)  # let it be submitted before any later write: runs are numbered in this order
        self._line.add(run)

    async def _show_choice(self, question: Answered) -> None:
        """Replace the buttons of a question with the answer."""
        channel = self._ports.channel(question.address.account)
        if channel is not None and channel.capabilities.edits and channel.capabilities.buttons:
            await self._ports.responder.show_choice(question.reply_key, question.address, question.choice)

    async def _join(self, last: Waiting, turn: Turn, notice: OutboundMessage | None) -> None:
        row = joined_run(last.row, turn, self._ports.background.take(last.row.conversation))
        await self._commit(turn, notice, lambda tx: runs.extend(tx, row.run_id, turn.ids, row.input))
        self._line.join(row)

    async def _replace(self, running: RunRow, turn: Turn, notice: OutboundMessage | None, reason: StopReason) -> None:
        """Stop the current run; the turn is next."""
        run, told = await self._with_resources(await self._run_of(turn, 1), turn)
        run, notice = replace(run, ahead=self._line.next_ahead), _with(notice, told)

        def unit(tx: Connection) -> None:
            runs.open(tx, run)
            runs.ask_to_stop(tx, running.run_id, reason)

        await self._commit(turn, notice, unit)
        self._line.add_first(run)
        self._ports.runs.stop(running.run_id, reason)

    async def let_hear(self, running: RunRow, waiting: Waiting) -> RunRow:
        """Add a waiting message to the current run; returns that run's new state."""
        row, now, joined = waiting.row, self._ports.clock.now(), steered_run(running, waiting.row)
        told = OutboundMessage(text=texts_for(waiting.context.locale).steered, final=True)

        def unit(tx: Connection) -> None:
            runs.join(tx, joined.run_id, row.run_id, joined.input, now)

        await self._ports.responder.tell(row.reply_key, row.address, row.reply_to, told, also=unit)
        self._line.remove(waiting)
        return joined

    async def _run_of(self, turn: Turn, before: int) -> RunRow:
        """The run of a turn. before: number of runs ahead of it."""
        ports, record = self._ports, await self._record(turn.first)
        agent, first = ports.agents.agent_of(record), turn.first
        people: tuple[str, ...] = ()
        if first.address.kind != "dm":
            people = await ports.store.read(lambda tx: runs.others_who_spoke(tx, record.key, turn.person))
        run = run_of(
            turn,
            record,
            model=ports.agents.model_of(record),
            agent=agent,
            called=self._called(turn, record, agent),
            background=ports.background.take(record.key),
            people=people,
            place=place_of(ports.channel(first.account), first),
            now=ports.clock.now(),
            epoch=ports.store.epoch,
            timezone=ports.timezone(),
        )
        return replace(run, rule=turn.parts[0].rule, place=before)

    async def _with_resources(self, run: RunRow, turn: Turn) -> tuple[RunRow, str]:
        """The run with the collections that it names and, for a research, the files of the thread; and a notice about
        those that it names and that do not exist."""
        ports, run_input, words, told = self._ports, run.input, texts_for(turn.language).research, []
        research = run_input.research if run_input.research is not None and not run_input.research.resumes else None
        names = named_collections(run_input.text)
        if names and ports.knowledge.settings.enabled:
            asker = Asker(owner=run.context.owner, is_group=run.context.is_group, speaker=run.speaker)
            known, unknown, there = await ports.knowledge.named(names, asker)
            run_input = replace(run_input, collections=tuple(known))
            if unknown and research is not None:
                key = "unknown_collection" if there else "no_collections"
                shown = ", ".join(f"@{plain(name)}" for name in there)
                told.append(words[key].format(names=", ".join(f"@{plain(name)}" for name in unknown), there=shown))
        if research is not None:
            files = await ports.store.read(
                lambda tx: [file for file in runs.files_of(tx, run.thread_id) if file.path.is_file()]
            )
            run_input = replace(run_input, research=replace(research, files=tuple(files[:MOST_FILES])))
            sent = (file.name for file in (*run_input.files, *files))
            if (missing := missing_files(run_input.text, sent)) and not turn.offer:
                told.append(words["missing_files"].format(names=", ".join(map(plain, missing))))
        return replace(run, input=run_input), "\n\n".join(told)

    def _called(self, turn: Turn, record: ConversationRow, agent: str) -> Called:
        """What a turn invokes, by a slash or one of a plan's answers, and the text that it is given."""
        ports, line = self._ports, parse(turn.text)
        try:
            research = research_asked(line) if not ports.research() else None
        except BadOption:  # only with a file, which no command takes: plain text then
            research = None
        if research is not None:
            request, question = research
            return Called(question, research=replace(request, style=request.style or record.research_style or ""))
        skill, text = ports.skills.called(line, turn.text, record.owner, agent, record.skills_off)
        return Called(text, skill=skill, choice=choice(turn.text) if not turn.files else "")

    async def _commit(self, turn: Turn, notice: OutboundMessage | None, unit: Callable[[Connection], object]) -> None:
        """Commit the effects of a turn, together with the notice about its files."""
        if self._opening is not None and not self._opening.done():  # after a failed write it would be numbered later
            await asyncio.wait({self._opening})
        if notice is None:
            await self._ports.store.write(unit)
            return
        first = turn.first
        key = f"files:{turn.ids[0]}"
        await self._ports.responder.tell(key, first.address, first.platform_message_id, notice, also=unit)

    async def answer(self, turn: Turn, notice: OutboundMessage, reason: str) -> None:
        """Settle a turn without a run, by a sentence."""
        responder, first = self._ports.responder, turn.first
        await responder.tell(
            f"event:{turn.ids[0]}",
            first.address,
            first.platform_message_id,
            notice,
            also=lambda tx: responder.answered(tx, turn.ids, reason),
        )


def _with(notice: OutboundMessage | None, told: str) -> OutboundMessage | None:
    """The notice with this text added."""
    if not told or notice is None:
        return OutboundMessage(text=told, final=True) if told else notice
    return replace(notice, text=f"{notice.text}\n\n{told}")


def _reason(move: Move, *, own: bool) -> StopReason:
    if move is Move.INTERRUPT:
        return StopReason.NEW_MESSAGE if own else StopReason.ADMIN_MESSAGE
    return StopReason.ROLLBACK if own else StopReason.ADMIN_ROLLBACK
