"""Methods about the bot itself and about chats: getMe, webhook, commands, members."""

import json
import re
from typing import Any

from tests.simulators.telegram.calls import Call
from tests.simulators.telegram.errors import ApiError, bad_request
from tests.simulators.telegram.methods import target_chat
from tests.simulators.telegram.state import Bot, World

MAX_COMMANDS = 100
MAX_DESCRIPTION = 256
MAX_ABOUT, MAX_SHORT = 512, 120
COMMAND = re.compile(r"[a-z0-9_]{1,32}")
SCOPES = frozenset(
    {"default", "all_private_chats", "all_group_chats", "all_chat_administrators"}
    | {"chat", "chat_administrators", "chat_member"}
)
ADMINISTRATORS = frozenset({"creator", "administrator"})


def get_me(world: World, bot: Bot, call: Call) -> Any:
    """getMe: the profile given at registration."""
    return bot.profile


def set_webhook(world: World, bot: Bot, call: Call) -> Any:
    """setWebhook: from now on getUpdates answers with 409. Nothing is ever sent to the address."""
    bot.webhook = call.text("url")
    return True


def get_webhook_info(world: World, bot: Bot, call: Call) -> Any:
    """getWebhookInfo: the url is empty without a webhook."""
    return {"url": bot.webhook, "has_custom_certificate": False, "pending_update_count": bot.pending}


def delete_webhook(world: World, bot: Bot, call: Call) -> Any:
    """deleteWebhook: updates can be polled again; pending ones can be dropped."""
    bot.webhook = ""
    if call.flag("drop_pending_updates"):
        bot.queue.drop_all()
    return True


def _commands_key(call: Call) -> tuple[str, str]:
    scope = call.object("scope") or {"type": "default"}
    if scope.get("type") not in SCOPES:
        raise bad_request("can't parse BotCommandScope: unsupported type")
    return json.dumps(scope, sort_keys=True), call.text("language_code")


def set_my_commands(world: World, bot: Bot, call: Call) -> Any:
    """setMyCommands for one scope and language."""
    commands = call.objects("commands")
    if len(commands) > MAX_COMMANDS:
        raise bad_request("BOT_COMMANDS_TOO_MUCH")
    for command in commands:
        if not COMMAND.fullmatch(str(command.get("command", "")).removeprefix("/")):
            raise bad_request("BOT_COMMAND_INVALID")
        if not 1 <= len(str(command.get("description", ""))) <= MAX_DESCRIPTION:
            raise bad_request("BOT_COMMAND_DESCRIPTION_INVALID")
    bot.commands[_commands_key(call)] = commands
    return True


def delete_my_commands(world: World, bot: Bot, call: Call) -> Any:
    """deleteMyCommands for one scope and language."""
    bot.commands.pop(_commands_key(call), None)
    return True


def get_my_commands(world: World, bot: Bot, call: Call) -> Any:
    """getMyCommands for one scope and language."""
    return bot.commands.get(_commands_key(call), [])


def set_my_description(world: World, bot: Bot, call: Call) -> Any:
    """setMyDescription for one language."""
    return _describe(bot, call, "description", MAX_ABOUT)


def set_my_short_description(world: World, bot: Bot, call: Call) -> Any:
    """setMyShortDescription for one language."""
    return _describe(bot, call, "short_description", MAX_SHORT)


def _describe(bot: Bot, call: Call, field: str, longest: int) -> Any:
    text = call.text(field)
    if len(text) > longest:
        raise bad_request("text is too long")
    bot.about[field, call.text("language_code")] = text
    return True


def get_my_description(world: World, bot: Bot, call: Call) -> Any:
    """getMyDescription for one language."""
    return {"description": bot.about.get(("description", call.text("language_code")), "")}


def get_my_short_description(world: World, bot: Bot, call: Call) -> Any:
    """getMyShortDescription for one language."""
    return {"short_description": bot.about.get(("short_description", call.text("language_code")), "")}


def get_chat(world: World, bot: Bot, call: Call) -> Any:
    """getChat: what is known, plus the mandatory fields of ChatFullInfo."""
    chat = target_chat(world, bot, call)
    full = {"accent_color_id": 0, "max_reaction_count": 11, "accepted_gift_types": GIFTS}
    return {**full, **chat.data}


GIFTS = {
    "unlimited_gifts": False,
    "limited_gifts": False,
    "unique_gifts": False,
    "premium_subscription": False,
    "gifts_from_channels": False,
}


def get_chat_member(world: World, bot: Bot, call: Call) -> Any:
    """getChatMember: people count as members once they have written; the control side sets other states."""
    chat = target_chat(world, bot, call)
    member = chat.members.get(call.integer("user_id"))
    if member is None:
        raise bad_request("PARTICIPANT_ID_INVALID")
    return member


def get_chat_administrators(world: World, bot: Bot, call: Call) -> Any:
    """getChatAdministrators of a group or channel."""
    chat = target_chat(world, bot, call)
    if chat.is_private:
        raise bad_request("there are no administrators in the private chat")
    return [member for member in chat.members.values() if member["status"] in ADMINISTRATORS]


def leave_chat(world: World, bot: Bot, call: Call) -> Any:
    """leaveChat: later calls into the chat get a 403."""
    chat = target_chat(world, bot, call)
    if chat.is_private:
        raise ApiError(400, "Bad Request: can't leave private chats")
    chat.members[bot.id] = {"status": "left", "user": bot.user}
    chat.touch()
    return True


METHODS = {
    "getMe": get_me,
    "setWebhook": set_webhook,
    "getWebhookInfo": get_webhook_info,
    "deleteWebhook": delete_webhook,
    "setMyCommands": set_my_commands,
    "deleteMyCommands": delete_my_commands,
    "getMyCommands": get_my_commands,
    "setMyDescription": set_my_description,
    "getMyDescription": get_my_description,
    "setMyShortDescription": set_my_short_description,
    "getMyShortDescription": get_my_short_description,
    "getChat": get_chat,
    "getChatMember": get_chat_member,
    "getChatAdministrators": get_chat_administrators,
    "leaveChat": leave_chat,
}
