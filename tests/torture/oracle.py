"""The judge: finds every broken promise from the messages sent and the final state. Pure."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from bot.store.runs import JOINED
from bot.texts import texts_for
from tests.torture.facts import marker_of
from tests.torture.load import expected, final_words, squeezed
from tests.torture.said_anew import said_anew

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sqlalchemy import Row

    from tests.simulators.model.records import Record
    from tests.torture.facts import Chat, Facts, Reply
    from tests.torture.load import Asked
    from tests.torture.platform import Bubble
    from tests.torture.report import Report

EN = texts_for("en")
STOPPED = tuple(squeezed(sentence) for sentence in (*EN.stopped_by.values(), EN.dropped_by_new))
PUT_OFF = (EN.queued_next, EN.queued, EN.queued_behind_approval, EN.steering, EN.takes_a_while)
NOT_YET = tuple(squeezed(sentence.partition("{")[0]) for sentence in PUT_OFF)
PASSED_ON = squeezed(EN.steered)
DEAD_LETTER = squeezed(EN.gave_up.partition("{")[0])
RECORDING_SECONDS = 5.0
"""Longest time in which the id of a sent message must be recorded: a later kill did not hit W5."""
STORING_SECONDS = 2.0
"""Longest time in which a process must store what it has read, where the platform does not redeliver. Only time with a
reachable database counts: until then events are in memory only, and a kill loses them."""

WAKING_SECONDS = 1.0
"""Time within which a resumed process sends what it was about to send."""


class Judge:
    """The judge of one account. patient: the database was not always writable, so recording may take any time."""

    def __init__(self, facts: Facts, report: Report, *, patient: bool = False) -> None:
        self._facts = facts
        self._report = report
        self._patient = patient
        self._by_id = {row.id: asked for asked in facts.asked for row in facts.rows_of(asked)}

    def judge(self) -> None:
        """Fill the report."""
        self._report.messages = len(self._facts.asked)
        for asked in self._facts.asked:
            self._one(asked)
        for row in self._facts.rows:
            if row.state not in ("done", "dead"):
                self._report.blame("open_inbox", f"inbox row {row.id} ({row.platform_message_id}) is {row.state}")
        for reply in self._facts.replies.values():
            if not reply.settled:
                self._report.blame("open_placeholders", f"reply {reply.key} is not delivered: {reply.text[:80]!r}")
        for chat, message in self._facts.stale():
            self._stale(chat, message)
        self._effects()
        self._model_calls()
        self._order()
        self._recovery()

    # One message.

    def _one(self, asked: Asked) -> None:
        rows = self._facts.rows_of(asked)
        if not rows:
            return self._unstored(asked)
        replies = [reply for row in rows for reply in self._replies_to(row)]
        if asked.is_command:
            return self._command(asked, replies)
        if not replies or not any(reply.messages for reply in replies):
            return self._report.blame("lost", f"{asked.marker} ({asked.kind}) has no answer and no notice")
        if len(replies) > 1:
            self._report.blame("duplicated_finals", f"{asked.marker} has {len(replies)} replies")
        self._copies(asked, replies[0])
        return self._text(asked, replies[0])

    def _unstored(self, asked: Asked) -> None:
        """Judge an unstored message: lost, unless the platform does not redeliver and no process had time."""
        if not self._facts.promises.redelivers and not asked.is_command and self._shows(asked):
            self._report.blame("lost", f"{asked.marker} ({asked.kind}) is answered and was never stored")
        elif not self._facts.promises.redelivers and self._nobody_took(asked):
            self._report.unacked += 1
        else:
            handed = "handed over" if asked.reached else "not handed over"
            self._report.blame("lost", f"{asked.marker} ({asked.kind}, {handed} at {asked.until:.1f}) was never stored")

    def _nobody_took(self, asked: Asked) -> bool:
        """Whether no process was connected, or the one that was had no time left to store it."""
        life = next((life for life in reversed(self._facts.lives) if life.began <= asked.at), None)
        if life is None or (life.ended is not None and life.ended <= asked.until):
            return not asked.reached or life is not None
        if life.leaving is not None and asked.until >= life.leaving:
            return True
        # Its connection may be seen to end shortly before the process does.
        if life.killed and life.could_store(asked.until) <= STORING_SECONDS:
            return True
        return not asked.reached and (life.connected is None or asked.at <= life.connected)

    def _replies_to(self, row: Row[Any]) -> Iterator[Reply]:
        keys = [run.reply_key for run in self._facts.runs if row.id in run.inbox_ids] or [f"event:{row.id}"]
        yield from (self._facts.replies[key] for key in keys if key in self._facts.replies)

    def _command(self, asked: Asked, replies: list[Reply]) -> None:
        if asked.kind == "stop":
            return  # its answer may be part of the answer that it stopped
        if len(replies) != 1 or not replies[0].messages:
            kind = "duplicated_finals" if replies else "lost"
            self._report.blame(kind, f"{asked.marker} (/{asked.kind}) has {len(replies)} replies")

    def _shows(self, asked: Asked) -> list[Bubble]:
        """The messages that contain the end of its answer, regardless of the database."""
        words = final_words(asked)
        bubbles = self._facts.chats.get((asked.account, asked.chat), [])
        return [bubble for bubble in bubbles if words in squeezed(bubble.text)]

    def _copies(self, asked: Asked, reply: Reply) -> None:
        """Check that the end of an answer appears once in the chat, regardless of the database."""
        known = self._facts.known_ids
        shown = [b for b in self._shows(asked) if (asked.account, asked.chat, b.message_id) in known]
        # Repetitions within a reply, where nothing can be edited, are judged by its text.
        if not self._facts.promises.edits:
            shown = [bubble for bubble in shown if bubble not in reply.messages[:-1]]
        if len(shown) > 1:
            ids = [bubble.message_id for bubble in shown]
            self._report.blame("duplicated_finals", f"{asked.marker} is answered in messages {ids}")

    def _text(self, asked: Asked, reply: Reply) -> None:
        run = next((run for run in self._facts.runs if run.reply_key == reply.key), None)
        turn = [asked] if run is None else [self._by_id[i] for i in run.inbox_ids if i in self._by_id]
        wanted = self._passed_on(asked, run) or expected(self._heard(run) or [part.text for part in turn])
        if self._said(asked, reply, wanted) == wanted:
            if asked.must_stop:
                self._report.blame("ignored_stops", f"{asked.marker} was answered in spite of /stop")
            return
        stopped = any(
            (later.chat, later.account) == (asked.chat, asked.account)
            and later.kind in ("stop", "new")
            and later.at > asked.at
            for later in self._facts.asked
        )
        if stopped and _is_notice(reply):
            self._report.notices += 1
        elif DEAD_LETTER in reply.text:
            self._report.blame("dead_letters", f"{asked.marker} became a dead letter")
        elif "⚠️" in reply.text:
            self._report.blame("failures", f"{asked.marker} ended in a failure: {reply.text[-160:]!r}")
        elif reply.settled:
            self._report.blame("wrong_texts", f"{asked.marker} ({asked.kind}) shows {reply.text[:80]!r}…")

    @staticmethod
    def _heard(run: Row[Any] | None) -> list[str]:
        """The last message passed to the run while it was active, which the model then answers instead."""
        return [] if run is None else [each.text for each in run.input.steered][-1:]

    def _passed_on(self, asked: Asked, run: Row[Any] | None) -> str:
        """The notice for a message that another run included, squeezed, else "". Some run must have received it."""
        if run is None or run.detail != JOINED:
            return ""
        told = (each.text for run in self._facts.runs for each in run.input.steered)
        if not any(asked.marker in text for text in told):
            self._report.blame("lost", f"{asked.marker} was passed on to an answer that never heard it")
        self._report.passed_on += 1
        return PASSED_ON

    def _said(self, asked: Asked, reply: Reply, wanted: str) -> str:
        """The text of the reply, squeezed. Judges the bubbles left above it."""
        if reply.messages and reply.messages[-1].unfinished and reply.settled:
            self._report.blame("open_placeholders", f"the answer to {asked.marker} is never finished")
        if self._facts.promises.edits:
            return reply.text
        said = said_anew(reply, wanted, NOT_YET)
        self._report.stale_bubbles += len(said.stale)
        for bubble in said.stale:
            self._report.note(f"stale bubble above the answer to {asked.marker}: {bubble.text[:60]!r}")
        for bubble in said.twice:
            self._twice(bubble, f"the answer to {asked.marker} in {bubble.message_id}, and anew below")
        for bubble in said.wrong:
            self._report.blame("wrong_texts", f"above the answer to {asked.marker} stands {bubble.text[:80]!r}…")
        return said.text

    def _twice(self, bubble: Bubble, what: str) -> None:
        """Judge a repeated answer: excused if the platform does not report what it accepted and the process died before
        it could record that."""
        if self._facts.promises.finds_finals or not self._died_showing(bubble):
            self._report.blame("duplicated_finals", what)
            return
        self._report.said_twice += 1
        self._report.note(f"said twice (killed before it was recorded): {what}")

    def _died_showing(self, bubble: Bubble) -> bool:
        """Whether the process that last changed the message was killed soon afterwards."""
        life = [life for life in self._facts.lives if life.began <= bubble.changed_at][-1]
        return life.killed and (life.ended or 0.0) - bubble.changed_at <= RECORDING_SECONDS

    # Things that should not exist.

    def _stale(self, chat: Chat, bubble: Bubble) -> None:
        what = f"message {bubble.message_id} in {chat[1]} is known to nobody: {bubble.text[:60]!r}"
        asked = [a for a in self._facts.asked if a.chat == chat[1] and not a.is_command]
        final = any(final_words(a) in squeezed(bubble.text) for a in asked)
        if final:
            self._unrecorded_final(chat, bubble, what)
        elif not self._facts.promises.finds_drafts and self._killed_while_sending(chat, bubble):
            self._report.stale_bubbles += 1
            self._report.note(f"stale bubble (killed at W5): {what}")
        else:
            self._report.blame("unaccounted_bubbles", what)

    def _unrecorded_final(self, chat: Chat, bubble: Bubble, what: str) -> None:
        if self._killed_while_sending(chat, bubble):
            self._twice(bubble, what)
        else:
            self._report.blame("duplicated_finals", what)

    def _killed_while_sending(self, chat: Chat, bubble: Bubble) -> bool:
        """Whether its process was killed before it had recorded the message's id."""
        where = (chat[1], bubble.message_id)
        call = next((c for c in self._facts.calls if (c.chat, c.message_id) == where), None)
        if call is None or (*chat, bubble.message_id) in self._facts.recorded:
            return False
        # Data that a killed process wrote to its socket may arrive after its end.
        life = [life for life in self._facts.lives if life.began <= call.arrived][-1]
        answered = call.answered and call.finished is not None
        in_time = (life.ended or 0.0) - (call.finished or 0.0) <= RECORDING_SECONDS
        return life.killed and (not answered or in_time or self._patient)

    def _effects(self) -> None:
        for marker, times in Counter(marker for marker, _ in self._facts.effects).items():
            if times > 1:
                self._report.blame("rerun_tools", f"the tool ran {times} times for {marker}")

    def _model_calls(self) -> None:
        """Judge repeated model calls: allowed if the kill happened before their checkpoint."""
        done: Counter[tuple[str, int]] = Counter()
        for record in self._facts.completions:
            if record.state == "done" and record.status == 200:
                done[marker_of(record.last_user_text), _rounds(record.body["messages"])] += 1
        strict = {asked.marker for asked in self._facts.asked if asked.no_repeat}
        for (marker, _), times in done.items():
            self._report.repeated_model_calls += times - 1
            if times > 1 and marker in strict:
                self._report.blame("lost_steps", f"the model was asked {times} times for the same step of {marker}")

    # Order and time.

    def _order(self) -> None:
        asked: dict[str, list[Record]] = {}
        for record in self._facts.completions:
            asked.setdefault(marker_of(record.last_user_text), []).append(record)
        by_conversation: dict[str, list[Row[Any]]] = {}
        for run in sorted(self._facts.runs, key=lambda run: min(run.inbox_ids, default=0)):
            by_conversation.setdefault(run.conversation, []).append(run)
        for conversation, runs in by_conversation.items():
            # Messages passed on are answered by another run; stopped or dropped ones are reported at once, out of turn.
            own = [run for run in runs if run.detail != JOINED]
            replies = [reply for run in own if (reply := self._facts.replies.get(run.reply_key)) and reply.messages]
            shown = [reply for reply in replies if not _is_notice(reply)]
            for first, second in pairwise(shown):
                if second.messages[0].order < first.messages[0].order:
                    what = f"{second.text[:40]!r} stands above {first.text[:40]!r}"
                    self._report.blame("order_violations", f"{conversation}: {what}")
            worked = [(run, calls) for run in own if (calls := self._calls_of(run, asked))]
            for (before, earlier), (after, later) in pairwise(worked):
                began = min(call.started for call in later)
                over = [call for call in earlier if call.started > began]
                late = [call for call in over if self._is_late(call)]
                self._report.late_calls += len(late)
                if len(over) > len(late):
                    what = ", ".join(
                        f"{run.run_id} of {run.inbox_ids} ({run.detail or run.state}) by "
                        f"{[(_key_of(call), round(call.started, 1)) for call in calls]}"
                        for run, calls in ((before, earlier), (after, later))
                    )
                    self._report.blame("order_violations", f"{conversation}: two runs worked at once: {what}")

    def _calls_of(self, run: Row[Any], asked: Mapping[str, list[Record]]) -> list[Record]:
        """The model calls of a run, including those with messages passed to it while it was active."""
        own = next((self._by_id[i].marker for i in run.inbox_ids if i in self._by_id), "")
        told = [marker_of(each.text) for each in run.input.steered]
        return [call for marker in (own, *told) for call in asked.get(marker, ())]

    def _is_late(self, call: Record) -> bool:
        """Whether its process was frozen between its last lease check and the call (docs/scaling.md)."""
        return any(_key_of(call) == key and 0 <= call.started - at < WAKING_SECONDS for key, at in self._facts.woken)

    def _recovery(self) -> None:
        """Record the time from the start of a process to its first visible call, if messages were waiting."""
        finished = sorted(self._answered_at())
        for life in self._facts.lives[1:]:
            waited = any(at < life.began < done for at, done in finished)
            shown = [c.arrived for c in self._facts.calls if c.applied and c.arrived >= life.began]
            first = min(shown, default=None)
            unharmed = not life.disturbed and not life.frozen
            if waited and unharmed and first is not None and life.lived_at(first):
                self._report.recovery.append(round(first - life.began, 3))

    def _answered_at(self) -> Iterator[tuple[float, float]]:
        """(earliest time at which a process could know it, time of the answer) of each message."""
        for asked in self._facts.asked:
            for row in self._facts.rows_of(asked):
                known = asked.at if self._facts.promises.at_once else self._facts.stored_at(row)
                for reply in self._replies_to(row):
                    if reply.messages:
                        yield known, max(message.changed_at for message in reply.messages)


def _rounds(messages: list[dict[str, Any]]) -> int:
    """Number of tool results since the user's message. Not of earlier turns, which a summary may have replaced."""
    roles = [message["role"] for message in messages]
    return roles[::-1].index("user") if "user" in roles else 0


def _key_of(call: Record) -> str:
    return call.headers.get("authorization", "").removeprefix("Bearer ")


def _is_notice(reply: Reply) -> bool:
    """Whether it reports that the person's own /stop or /new ended it."""
    return any(sentence in reply.text for sentence in STOPPED)
