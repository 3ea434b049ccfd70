"""The commands of a bot and their effects: replies, streams, pushes, welcomes, updated cards."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.simulators.wecom import cards, uploads
from tests.simulators.wecom.errors import (
    BAD_CHAT,
    BAD_MSGTYPE,
    BAD_PARAM,
    EXPIRED,
    FREQUENCY,
    INVALID_REQ_ID,
    WecomError,
)
from tests.simulators.wecom.journal import Record
from tests.simulators.wecom.limits import MARKDOWN_BYTES, MEDIA_ID_SECONDS, QUICK_SECONDS, REPLY_SECONDS, STREAM_SECONDS
from tests.simulators.wecom.state import Bot, Bubble, Chat, Json, Request, RequestKind
from tests.simulators.wecom.world import World

MEDIA_TYPES = ("image", "file", "voice", "video")


@dataclass
class Call:
    """A frame of a subscribed bot. socket: the number of its connection."""

    world: World
    bot: Bot
    socket: int
    record: Record
    body: Json

    @property
    def now(self) -> float:
        return self.world.clock.now()


def respond(call: Call) -> None:
    """aibot_respond_msg: a stream's snapshot, or one other message, under the req_id of a callback."""
    request = _request(call, ("message", "card"), REPLY_SECONDS)
    call.record.chat = request.chat.id
    match call.body.get("msgtype"):
        case "stream":
            _stream(call, request)
        case "markdown" | "template_card" | "image" | "file" | "voice" | "video":
            _once(request)
            _count(call, request.chat)
            _show(call, request.chat, answers=request.msgid)
        case other:
            raise WecomError(BAD_MSGTYPE, f"respond with {other}")


def push(call: Call) -> None:
    """aibot_send_msg: to a conversation in which a person has written to the bot."""
    chat = _pushed_to(call)
    call.record.chat = chat.id
    if call.body.get("msgtype") not in ("markdown", "template_card", *MEDIA_TYPES):
        raise WecomError(BAD_MSGTYPE, f"push of {call.body.get('msgtype')}")
    _count(call, chat)
    _show(call, chat)


def welcome(call: Call) -> None:
    """aibot_respond_welcome_msg: within five seconds after enter_chat."""
    request = _request(call, ("enter_chat",), QUICK_SECONDS)
    call.record.chat = request.chat.id
    if call.body.get("msgtype") == "template_card":
        cards.check(call.body.get("template_card") or {})
    _once(request)
    if call.body.get("msgtype") == "text":
        request.chat.add("", "text", text=_text(call.body.get("text")), answers=request.msgid)
        return
    if call.body.get("msgtype") != "template_card":
        raise WecomError(BAD_MSGTYPE, f"welcome with {call.body.get('msgtype')}")
    _show(call, request.chat, answers=request.msgid)


def update_card(call: Call) -> None:
    """aibot_respond_update_msg: replaces the card that was pressed, within five seconds."""
    request = _request(call, ("card",), QUICK_SECONDS)
    call.record.chat = request.chat.id
    card = call.body.get("template_card")
    if call.body.get("response_type") != "update_template_card" or not isinstance(card, dict):
        raise WecomError(BAD_PARAM, "response_type or template_card")
    cards.check(card)
    if card.get("task_id") != request.task_id:
        raise WecomError(BAD_PARAM, "another task_id than that of the pressed card")
    _once(request)
    bubble = call.bot.cards[request.task_id]
    bubble.show(cards.shown(card), card)
    request.chat.touch()


def _request(call: Call, kinds: tuple[RequestKind, ...], seconds: float) -> Request:
    request = call.bot.requests.get(call.record.req_id)
    if request is None or request.kind not in kinds:
        raise WecomError(INVALID_REQ_ID, f"no {' or '.join(kinds)} with this req_id")
    if call.now - request.at > seconds:
        raise WecomError(INVALID_REQ_ID, f"older than {seconds:.0f} s")
    if call.bot.forget_req_ids and request.socket != call.socket:
        raise WecomError(INVALID_REQ_ID, "of an older connection")
    return request


def _once(request: Request) -> None:
    if request.answered or request.stream is not None:
        raise WecomError(INVALID_REQ_ID, "answered before")
    request.answered = True


def _stream(call: Call, request: Request) -> None:
    match call.body.get("stream"):
        case {"id": str(stream_id), **rest} if stream_id:
            content, finish = rest.get("content", ""), rest.get("finish", False)
        case _:
            raise WecomError(BAD_PARAM, "stream")
    if not isinstance(content, str) or not isinstance(finish, bool):
        raise WecomError(BAD_PARAM, "stream.content or stream.finish")
    if len(content.encode()) > MARKDOWN_BYTES:
        raise WecomError(BAD_PARAM, f"content of {len(content.encode())} bytes")
    bubble = request.stream
    if bubble is None:
        _once(request)
        _count(call, request.chat)
        bubble = request.chat.add(
            "", "stream", stream_id=stream_id, state="streaming", answers=request.msgid, started=call.now
        )
        request.stream = bubble
    else:
        _goes_on(call, bubble, stream_id)
        if call.bot.limits.refreshes:
            _count(call, request.chat)
    if bubble.text != content:
        bubble.show(content)
    bubble.state = "finished" if finish else "streaming"
    request.chat.touch()


def _goes_on(call: Call, bubble: Bubble, stream_id: str) -> None:
    if bubble.stream_id != stream_id:
        raise WecomError(BAD_PARAM, f"the stream under this req_id is {bubble.stream_id}")
    if bubble.state == "finished":
        raise WecomError(EXPIRED, "finished")
    life = STREAM_SECONDS if call.bot.stream_seconds is None else call.bot.stream_seconds
    if call.now - bubble.started > life:
        bubble.state = "expired"
        raise WecomError(EXPIRED, f"begun {call.now - bubble.started:.0f} s ago")


def _pushed_to(call: Call) -> Chat:
    chat = call.bot.chats.get(str(call.body.get("chatid")))
    kinds = {0: ("single", "group"), 1: ("single",), 2: ("group",)}.get(call.body.get("chat_type", 0), ())
    if chat is None or chat.kind not in kinds or not chat.spoke or not chat.member:
        raise WecomError(BAD_CHAT, f"{call.body.get('chatid')!r} as chat_type {call.body.get('chat_type')}")
    return chat


def _count(call: Call, chat: Chat) -> None:
    if not chat.meter.take(call.now, call.bot.limits):
        raise WecomError(FREQUENCY, "too many messages in this conversation")


def _show(call: Call, chat: Chat, answers: str = "") -> None:
    """Put a message other than a stream into the conversation."""
    kind = str(call.body["msgtype"])
    content = call.body.get(kind)
    if kind == "markdown":
        chat.add("", "markdown", text=_text(content), answers=answers, req_id=call.record.req_id)
    elif kind == "template_card":
        _show_card(call, chat, content, answers)
    else:
        _show_media(call, chat, kind, content, answers)


def _show_card(call: Call, chat: Chat, card: object, answers: str) -> None:
    if not isinstance(card, dict):
        raise WecomError(BAD_PARAM, "template_card")
    cards.check(card)
    task_id = str(card.get("task_id", ""))
    if task_id in call.bot.cards:
        raise WecomError(BAD_PARAM, f"task_id {task_id} was used before")
    bubble = chat.add(
        "", "card", text=cards.shown(card), card=card, task_id=task_id, answers=answers, req_id=call.record.req_id
    )
    if task_id:
        call.bot.cards[task_id] = bubble


def _show_media(call: Call, chat: Chat, kind: str, content: object, answers: str) -> None:
    media_id = content.get("media_id") if isinstance(content, dict) else None
    media = call.bot.media.get(str(media_id))
    if media is None or media.type != kind or call.now - media.at > MEDIA_ID_SECONDS:
        raise WecomError(BAD_PARAM, f"media_id {media_id}")
    chat.add("", kind, file=media.to_json(), answers=answers, req_id=call.record.req_id)


def _text(content: object) -> str:
    text = content.get("content") if isinstance(content, dict) else None
    if not isinstance(text, str) or not text.strip():
        raise WecomError(BAD_PARAM, "empty content")
    if len(text.encode()) > MARKDOWN_BYTES:
        raise WecomError(BAD_PARAM, f"content of {len(text.encode())} bytes")
    return text


def _upload(step: Callable[[World, Bot, Json], Json | None]) -> Callable[[Call], Json | None]:
    return lambda call: step(call.world, call.bot, call.body)


COMMANDS: dict[str, Callable[[Call], Json | None]] = {
    "aibot_respond_msg": respond,
    "aibot_send_msg": push,
    "aibot_respond_welcome_msg": welcome,
    "aibot_respond_update_msg": update_card,
    "aibot_upload_media_init": _upload(uploads.begin),
    "aibot_upload_media_chunk": _upload(uploads.chunk),
    "aibot_upload_media_finish": _upload(uploads.finish),
}
ANSWERS = frozenset({"aibot_respond_msg", "aibot_respond_welcome_msg", "aibot_respond_update_msg"})
"""Commands under the req_id of a callback; all others have a new one."""
