"""Actions of administrators as events of the log: in chats, on the page and through the API, over the control socket,
and by commands while no process runs.

An action is logged with ids and names of the config, never with anything that people said.
"""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from bot.control import logs
from bot.control.lock import DataDirInUse, DataDirLock
from bot.control.server import NotRunning, Refused, ask, connection

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bot.settings import Settings

log = logging.getLogger(__name__)

EVENT = "admin_action"
MACHINE = "antler on the machine"
"""The actor of a command on the command line: who may use it is up to the machine's accounts."""
FIELDS = ("account", "conversation", "person", "run", "what")
LONGEST = 300
"""Characters kept of a field received over the control socket."""


class Action(StrEnum):
    """All actions; docs/monitoring.md explains each."""

    STOP = "stop"
    DROP = "drop"
    RUN_NEXT = "run_next"
    RETRY = "retry"
    UNDO = "undo"
    COMPACT = "compact"
    NEW_THREAD = "new_thread"
    RESUME_THREAD = "resume_thread"
    DELETE_THREAD = "delete_thread"
    MODEL = "model"
    AGENT = "agent"
    TIMEZONE = "timezone"
    PROGRESS = "progress"
    RESEARCH_STYLE = "research_style"
    VOICE = "voice"
    SKILLS_ON = "skills_on"
    SKILLS_OFF = "skills_off"
    SKILL_APPROVE = "skill_approve"
    SKILL_INSTALL = "skill_install"
    SKILL_REMOVE = "skill_remove"
    GRANTS_REVOKE = "grants_revoke"
    REMINDER_CANCEL = "reminder_cancel"
    APPROVAL = "approval"
    ACCESS_ALLOW = "access_allow"
    ACCESS_REFUSE = "access_refuse"
    ACCESS_REVOKE = "access_revoke"
    SKILL_ON = "skill_on"
    SKILL_OFF = "skill_off"
    TOKEN_CREATE = "token_create"
    TOKEN_REVOKE = "token_revoke"
    SIGN_IN_LINK = "sign_in_link"
    MEMORY_SHOW = "memory_show"
    MEMORY_ADD = "memory_add"
    MEMORY_EDIT = "memory_edit"
    MEMORY_FORGET = "memory_forget"
    MEMORY_ON = "memory_on"
    MEMORY_OFF = "memory_off"
    KNOWLEDGE_ADD = "knowledge_add"
    KNOWLEDGE_REMOVE = "knowledge_remove"
    FORGET_PERSON = "forget_person"
    CLAIM_CODE = "claim_code"
    RENAME_ACCOUNT = "rename_account"
    SEND = "send"
    RELOAD = "reload"
    BACKUP = "backup"
    RESTORE = "restore"
    DOCTOR_FIX = "doctor_fix"


def log_action(
    action: Action,
    by: str,
    *,
    account: str = "",
    conversation: str = "",
    person: str = "",
    run: str = "",
    what: str = "",
    state: str = "",
) -> None:
    """Log one action. by: a person's id, with that of a token where a program acted, or MACHINE. person: the person
    concerned, where that is someone else. what: names of models, agents, skills, files or keys of the config. state:
    the outcome, "" where it was done."""
    where = [f" {what}"] if what else []
    where += [f" of {person}"] if person else []
    where += [f" in {conversation}"] if conversation else []
    about = {"account": account, "conversation": conversation, "person": person, "run": run, "what": what}
    extra = {"event": EVENT, "action": str(action), "by": by, "state": state, **about}
    log.info("%s%s, by %s%s", action, "".join(where), by, f": {state}" if state else "", extra=extra)


async def operation(request: Mapping[str, Any]) -> dict[str, Any]:
    """Log an action of a command that worked without this process. request: {"action": ..., FIELDS} from the socket."""
    try:
        action = Action(str(request.get("action")))
    except ValueError:
        return {"text": "the running antler is a different version: restart it", "done": False}
    log_action(action, MACHINE, **{name: str(request[name])[:LONGEST] for name in FIELDS if request.get(name)})
    return {"text": "", "done": True}


def tell(settings: Settings, action: Action, **fields: str) -> None:
    """Have an action of the command line logged, by the running process or else in its log file. Raises nothing where
    both fail, since the action itself is done."""
    try:
        asyncio.run(_there(settings, action, fields))
    except Refused:
        log.debug("the running antler is a different version, which does not log actions of the command line")
    except NotRunning:
        with suppress(DataDirInUse, OSError):
            if settings.data_dir.stat().st_uid != os.geteuid():
                return  # the gateway could not open a lock created by another user
            with DataDirLock(settings.data_dir), logs.written(settings):
                log_action(action, MACHINE, **fields)


async def _there(settings: Settings, action: Action, fields: Mapping[str, Any]) -> None:
    async with connection(settings.data_dir) as (reader, writer):
        await ask(reader, writer, "action", action=str(action), **fields)
