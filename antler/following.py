"""Follows a run: what its stream says is made into events, each told once, through lost connections and restarts."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from antler.connection import Patience, part
from antler.errors import RunFailed, TooMany, Unavailable, Unreachable
from antler.values import (
    Answer,
    Approval,
    File,
    Progress,
    Question,
    Run,
    Text,
    approval_of,
    file_of,
    line_of,
    messages_of,
    question_of,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Mapping

    from antler.connection import Connection, Frame
    from antler.values import Event

API = "/api/langgraph"
BEGINNING = "-1"
"""The Last-Event-ID that asks for all that is kept."""
MODES = ("messages-tuple", "custom")


class Reading:
    """One run as far as it was read. last_event_id: where a lost stream is taken up again. ended: the stream is over,
    and the run has ended or waits for a person. asked: ids of the approvals that were told."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.last_event_id = BEGINNING
        self.ended = False
        self.asked: set[str] = set()
        self.files: dict[str, File] = {}
        self.question: Question | None = None
        self._begun = False
        self._texts: dict[str, str] = {}
        """By message, as the gateway tells them; those that are void begin again."""
        self._void: set[str] = set()
        self._at_id: tuple[dict[str, str], set[str]] = ({}, set())
        """Both as they were at last_event_id: what came behind it is told once more."""
        self._told: dict[str, str] = {}
        """By message, as the program has them."""
        self._cut_off = ""
        """What it has of a message that the next one takes the place of."""
        self._has_gap = False
        self._finished: Mapping[str, Any] | None = None
        self._problem: tuple[str, str] | None = None

    def again(self) -> None:
        """The stream is taken up behind last_event_id."""
        self.ended, self._problem = False, None
        texts, void = self._at_id
        self._texts, self._void = dict(texts), set(void)

    def from_the_beginning(self) -> None:
        """The stream is read once more; what the program has of it is not told again."""
        self.last_event_id, self._at_id = BEGINNING, ({}, set())
        self.again()

    @property
    def text(self) -> str:
        """What the assistant said last, as far as it was told."""
        return next(reversed(self._told.values()), "")

    def take(self, frame: Frame) -> Iterator[Event]:
        """What is new in an event of the stream."""
        match frame.event:
            case "metadata" if not self._begun:
                self._begun = True
                yield self.run
            case "messages":
                yield from self._message(frame.data[0])
            case "gap":
                yield from self._caught_up(frame.data["messages"])
            case "custom":
                yield from self._custom(frame.data)
            case "error":
                self._problem = str(frame.data["error"]), str(frame.data["message"])
            case "end":
                self.ended = True
        if frame.id:
            self.last_event_id, self._at_id = frame.id, (dict(self._texts), set(self._void))

    def _message(self, message: Mapping[str, Any]) -> Iterator[Event]:
        message_id = message["id"]
        if message["type"] == "tool":
            return  # a result; the events of tools are told as Progress
        if message["type"] == "remove":
            self._void.add(message_id)
        elif message["content"]:
            before = "" if message_id in self._void else self._texts.get(message_id, "")
            self._void.discard(message_id)
            self._texts[message_id] = before + message["content"]
            yield from self._grown(message_id)

    def _caught_up(self, messages: list[Mapping[str, Any]]) -> Iterator[Event]:
        """The messages of the turn as they are, where events are lost. One that is not among them was cut off with the
        process that made it: it is made again, under the same id or another."""
        said = {each["id"]: each["content"] for each in messages if each["type"] == "ai" and each["content"]}
        for message_id in self._told.keys() - said.keys():
            self._void.add(message_id)
        self._has_gap = True
        self._cut_off = next((text for each, text in reversed(self._told.items()) if each not in said), "")
        for message_id, text in said.items():
            self._texts[message_id] = text
            self._void.discard(message_id)
            yield from self._grown(message_id)

    def _grown(self, message_id: str) -> Iterator[Event]:
        text, told = self._texts[message_id], self._told.get(message_id, self._cut_off)
        if told.startswith(text):
            return  # it is told once more, and has not caught up yet
        self._cut_off = ""
        self._told.pop(message_id, None)  # the newest stands last
        self._told[message_id] = text
        yield Text(message_id=message_id, text=text, added=text.removeprefix(told))

    def _custom(self, told: Mapping[str, Any]) -> Iterator[Event]:
        match told["type"]:
            case "file_ready":
                yield from self.found([told["file"]])
            case "question":
                if self.question is None:
                    self.question = question_of(self.run, told)
                    yield self.question
            case "finished":
                self._finished = told
                yield from self.found(told["files"])
            case kind:
                yield Progress(kind=kind, line=line_of(told), data=told)

    def found(self, files: list[Mapping[str, Any]]) -> Iterator[File]:
        """Files of the answer, those among them that are new. One that is presented again takes its former place."""
        for each in files:
            file = file_of(self.run, each)
            if self.files.get(file.path) != file:
                self.files[file.path] = file
                yield file

    def rest(self) -> Iterator[Event]:
        """The end of the answer's text, where the events that told it are lost and a later turn has taken the place of
        this one."""
        if self._has_gap and self._finished is not None and self._finished["text"]:
            message_id = str(self._finished["message_id"])
            self._texts[message_id] = str(self._finished["text"])
            self._void.discard(message_id)
            yield from self._grown(message_id)

    def answer(self) -> Answer | None:
        """What the run came to, where its end was told. Raises RunFailed."""
        if self._problem is not None:
            raise RunFailed(self.run.thread_id, self.run.run_id, *self._problem)
        if self._finished is None:
            return None
        return self.made(str(self._finished["text"]), limited=self._finished["outcome"] == "limited")

    def made(self, text: str, *, stopped: bool = False, limited: bool = False) -> Answer:
        """The answer of this run."""
        return Answer(
            thread_id=self.run.thread_id,
            run_id=self.run.run_id,
            text=text,
            files=tuple(self.files.values()),
            question=self.question,
            stopped=stopped,
            limited=limited,
        )


def place(run: Run) -> str:
    """The path of a run."""
    return f"{API}/threads/{part(run.thread_id)}/runs/{part(run.run_id)}"


async def follow(connection: Connection, run: Run) -> AsyncGenerator[Event, None]:
    """What a run tells, from its beginning to its Answer. Raises RunFailed, RequestFailed, Unreachable."""
    reading, patience = Reading(run), Patience(connection.retry_seconds)
    while True:
        reading.again()
        frames = connection.frames(f"{place(run)}/stream", {"stream_mode": MODES}, reading.last_event_id)
        try:
            async with aclosing(frames):
                async for frame in frames:
                    patience.reset()
                    for event in reading.take(frame):
                        yield event
            if not reading.ended:  # the gateway stops, and tells the rest when it is back
                raise Unreachable("the gateway ends the stream again and again")
            async with aclosing(_settled(connection, reading)) as settled:
                async for event in settled:
                    yield event
                    if isinstance(event, Answer):
                        return
        except (Unreachable, TooMany, Unavailable) as error:
            await patience.wait(error)


async def _settled(connection: Connection, reading: Reading) -> AsyncGenerator[Event, None]:
    """Where a stream is over: what waits for a decision, until it is decided; or the answer."""
    answer = reading.answer()
    if answer is not None:
        for event in reading.rest():
            yield event
        yield answer
        return
    run, pauses = reading.run, Patience(float("inf"))
    while approvals := [each for each in await waiting(connection, run.thread_id) if _is_of(run, each)]:
        for approval in approvals:
            if approval.id not in reading.asked:
                reading.asked.add(approval.id)
                yield approval
        await pauses.pause()
    told = (await connection.ask("GET", place(run))).json()
    if told["ended_at"] is None:
        await pauses.pause()
        return  # it was decided, and goes on
    if told["status"] == "interrupted":
        yield reading.made(reading.text, stopped=True)
    else:
        async with aclosing(_missed(connection, reading)) as missed:
            async for event in missed:
                yield event


def _is_of(run: Run, waits: Approval | Question) -> bool:
    return isinstance(waits, Approval) and waits.run_id == run.run_id


async def _missed(connection: Connection, reading: Reading) -> AsyncGenerator[Event, None]:
    """The answer of a run that ended while nobody followed it: of its stored events, else of its thread."""
    run = reading.run
    reading.from_the_beginning()
    async with aclosing(connection.frames(f"{place(run)}/stream", {"stream_mode": MODES}, BEGINNING)) as frames:
        async for frame in frames:
            for event in reading.take(frame):
                if not isinstance(event, Progress):  # some of it was told before
                    yield event
    if (answer := reading.answer()) is not None:
        yield answer
        return
    values = (await connection.ask("GET", f"{place(run)}/join")).json()
    if (failed := values.get("__error__")) is not None:
        raise RunFailed(run.thread_id, run.run_id, str(failed["error"]), str(failed["message"]))
    for file in reading.found((await connection.ask("GET", f"{place(run)}/files")).json()):
        yield file
    said = [each.text for each in messages_of(values) if each.role == "assistant" and each.text]
    yield reading.made(said[-1] if said else reading.text)


async def waiting(connection: Connection, thread_id: str) -> list[Approval | Question]:
    """What a thread waits for."""
    body = {"ids": [thread_id], "select": ["status", "interrupts"]}
    told = (await connection.ask("POST", f"{API}/threads/search", json=body)).json()
    found: list[Approval | Question] = []
    for each in [each for interrupts in told[0]["interrupts"].values() for each in interrupts] if told else ():
        value, run = each["value"], Run(thread_id=thread_id, run_id=each["value"]["run_id"])
        if value["type"] == "approval":
            found.append(approval_of(run, each))
        else:
            found.append(question_of(run, {**value, "prompt_id": each["id"]}))
    return found
