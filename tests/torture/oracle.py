"""The judge: from what was said and what is there afterwards, everything that broke a promise. Pure."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from bot.texts import texts_for
from tests.torture.facts import marker_of
from tests.torture.load import expected, final_words, squeezed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Row

    from tests.simulators.telegram.seen import SeenMessage
    from tests.torture.facts import Facts, Reply
    from tests.torture.load import Asked
    from tests.torture.report import Report

EN = texts_for("en")
STOPPED = tuple(squeezed(sentence) for sentence in (*EN.stopped_by.values(), EN.dropped_by_new))
DEAD_LETTER = squeezed(EN.gave_up.partition("{")[0])
RECORDING_SECONDS = 5.0
"""The longest that the id of a sent message may take to be recorded: a kill later than that did not hit W5."""


class Judge:
    """patient: the database could not be written at times, so that recording may have taken any time."""

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
            return self._report.blame("lost", f"{asked.marker} ({asked.kind}) was never stored")
        replies = [reply for row in rows for reply in self._replies_to(row)]
        if asked.is_command:
            return self._command(asked, replies)
        if not replies or not any(reply.messages for reply in replies):
            return self._report.blame("lost", f"{asked.marker} ({asked.kind}) has no answer and no notice")
        if len(replies) > 1:
            self._report.blame("duplicated_finals", f"{asked.marker} has {len(replies)} replies")
        self._copies(asked)
        return self._text(asked, replies[0])

    def _replies_to(self, row: Row[Any]) -> Iterator[Reply]:
        keys = [run.reply_key for run in self._facts.runs if row.id in run.inbox_ids] or [f"event:{row.id}"]
        yield from (self._facts.replies[key] for key in keys if key in self._facts.replies)

    def _command(self, asked: Asked, replies: list[Reply]) -> None:
        if asked.kind == "stop":
            return  # its answer may be the end of the answer that it stopped
        if len(replies) != 1 or not replies[0].messages:
            kind = "duplicated_finals" if replies else "lost"
            self._report.blame(kind, f"{asked.marker} (/{asked.kind}) has {len(replies)} replies")

    def _copies(self, asked: Asked) -> None:
        """The chat alone, whatever the database says: the end of an answer stands there once."""
        words = final_words(asked)
        known = self._facts.known_ids
        shown = [
            message.message_id
            for message in self._facts.chats[asked.chat]
            if words in squeezed(message.text) and (asked.chat, message.message_id) in known
        ]
        if len(shown) > 1:
            self._report.blame("duplicated_finals", f"{asked.marker} is answered in messages {shown}")

    def _text(self, asked: Asked, reply: Reply) -> None:
        run = next((run for run in self._facts.runs if run.reply_key == reply.key), None)
        turn = [asked] if run is None else [self._by_id[i] for i in run.inbox_ids if i in self._by_id]
        if reply.text == expected([part.text for part in turn]):
            if asked.must_stop:
                self._report.blame("ignored_stops", f"{asked.marker} was answered in spite of /stop")
            return
        stopped = any(
            later.chat == asked.chat and later.kind in ("stop", "new") and later.message_id > asked.message_id
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

    # What is there and should not be.

    def _stale(self, chat: int, message: SeenMessage) -> None:
        what = f"message {message.message_id} in {chat} is known to nobody: {message.text[:60]!r}"
        if self._killed_while_sending(chat, message):
            self._report.stale_bubbles += 1
            self._report.note(f"stale bubble (killed at W5): {what}")
            return
        asked = [a for a in self._facts.asked if a.chat == chat and not a.is_command]
        final = any(final_words(a) in squeezed(message.text) for a in asked)
        self._report.blame("duplicated_finals" if final else "unaccounted_bubbles", what)

    def _killed_while_sending(self, chat: int, message: SeenMessage) -> bool:
        """Whether its process was killed before it had recorded the message's id."""
        call = next((c for c in self._facts.calls if (c.chat_id, c.message_id) == (chat, message.message_id)), None)
        if call is None or (chat, message.message_id) in self._facts.recorded:
            return False
        # What a killed process had written to its socket may arrive after its end.
        life = [life for life in self._facts.lives if life.began <= call.arrived][-1]
        answered = call.status == 200 and call.outcome == "applied" and call.finished is not None
        in_time = (life.ended or 0.0) - (call.finished or 0.0) <= RECORDING_SECONDS
        return life.killed and (not answered or in_time or self._patient)

    def _effects(self) -> None:
        for marker, times in Counter(marker for marker, _ in self._facts.effects).items():
            if times > 1:
                self._report.blame("rerun_tools", f"the tool ran {times} times for {marker}")

    def _model_calls(self) -> None:
        """Whole answers of the model that were asked for again: allowed where the kill came before their checkpoint."""
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
        asked_at: dict[str, list[float]] = {}
        for record in self._facts.completions:
            asked_at.setdefault(marker_of(record.last_user_text), []).append(record.started)
        by_conversation: dict[str, list[Row[Any]]] = {}
        for run in sorted(self._facts.runs, key=lambda run: min(run.inbox_ids, default=0)):
            by_conversation.setdefault(run.conversation, []).append(run)
        for conversation, runs in by_conversation.items():
            replies = [reply for run in runs if (reply := self._facts.replies.get(run.reply_key)) and reply.messages]
            # What was stopped or dropped says so at once, whatever is in front of it.
            shown = [reply for reply in replies if not _is_notice(reply)]
            for first, second in pairwise(shown):
                if second.messages[0].message_id < first.messages[0].message_id:
                    what = f"{second.text[:40]!r} stands above {first.text[:40]!r}"
                    self._report.blame("order_violations", f"{conversation}: {what}")
            worked = [asked_at[m] for run in runs if (m := self._marker(run)) in asked_at]
            for earlier, later in pairwise(worked):
                if min(later) < max(earlier):
                    self._report.blame("order_violations", f"{conversation}: two runs worked at once")

    def _marker(self, run: Row[Any]) -> str:
        return next((self._by_id[i].marker for i in run.inbox_ids if i in self._by_id), "")

    def _recovery(self) -> None:
        """Start of a process until it first shows something, where something waited for it."""
        finished = sorted(self._answered_at())
        for life in self._facts.lives[1:]:
            waited = any(at < life.began < done for at, done in finished)
            shown = [c.arrived for c in self._facts.calls if c.applied and c.arrived >= life.began]
            first = min(shown, default=None)
            unharmed = not life.disturbed and not life.frozen
            if waited and unharmed and first is not None and life.lived_at(first):
                self._report.recovery.append(round(first - life.began, 3))

    def _answered_at(self) -> Iterator[tuple[float, float]]:
        """(asked, answered) of each message."""
        for asked in self._facts.asked:
            for row in self._facts.rows_of(asked):
                for reply in self._replies_to(row):
                    if reply.messages:
                        yield asked.at, max(message.changed_at for message in reply.messages)


def _rounds(messages: list[dict[str, Any]]) -> int:
    """Results of tools since the person spoke. Earlier turns do not count: a summary may have replaced some of them."""
    roles = [message["role"] for message in messages]
    return roles[::-1].index("user") if "user" in roles else 0


def _is_notice(reply: Reply) -> bool:
    """Whether it says that a person's own /stop or /new ended it."""
    return any(sentence in reply.text for sentence in STOPPED)
