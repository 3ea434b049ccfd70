"""`antler web` and `antler token`: sign-in links and tokens, made by the running gateway."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Any

from bot.access.admission import OPERATOR
from bot.access.signin import LINK_LIFE, NoToken
from bot.control import logs
from bot.control.actions import MACHINE, Action, log_action
from bot.control.server import NotRunning, ask, connection

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from bot.access.signin import SignIns
    from bot.store.sessions import TokenRow

NO_PAGE = "the page is off: set http.listen in the config, such as 127.0.0.1:8642"


class SignInTool:
    """The operation of the control socket: {"do": "link" | "list" | "create" | "revoke", ...} to {"text", "done"}, and
    "data" for a list."""

    def __init__(self, signins: SignIns) -> None:
        self._signins = signins

    async def do(self, request: Mapping[str, Any]) -> dict[str, Any]:
        match request.get("do"):
            case "link":
                link = self._signins.link(OPERATOR)
                if link is not None:
                    log_action(Action.SIGN_IN_LINK, MACHINE, person=OPERATOR)
                return {"text": NO_PAGE if link is None else link, "done": link is not None}
            case "list":
                known = self._signins.tokens
                return {"text": _table(known), "data": [_facts(row) for row in known], "done": True}
            case "create":
                return await self._create(request)
            case "revoke":
                name = str(request.get("name", ""))
                done = await self._signins.revoke(name)
                if done:
                    log_action(Action.TOKEN_REVOKE, MACHINE, what=name)
                text = f"{name} is revoked" if done else f"there is no token {name}"
                return {"text": text, "done": done}
        return {"text": "the running antler is a different version: restart it", "done": False}

    async def _create(self, request: Mapping[str, Any]) -> dict[str, Any]:
        scopes, days = request.get("scopes"), request.get("days")
        try:
            row, secret = await self._signins.make_token(
                str(request.get("name", "")),
                [str(scope) for scope in scopes] if isinstance(scopes, list) else [],
                str(request.get("person") or ""),
                days if isinstance(days, int) else None,
            )
        except NoToken as error:
            return {"text": str(error), "done": False}
        log_action(
            Action.TOKEN_CREATE, MACHINE, person=row.person, what=f"{row.name} ({row.id}): {' '.join(row.scopes)}"
        )
        return {"text": secret, "note": f"{row.name} acts as {row.person} with {', '.join(row.scopes)}", "done": True}


def _facts(row: TokenRow) -> dict[str, Any]:
    times = {name: getattr(row, name) for name in ("created_at", "expires_at", "used_at")}
    told = {name: at.isoformat(timespec="seconds") if at is not None else None for name, at in times.items()}
    return {"id": row.id, "name": row.name, "person": row.person, "scopes": list(row.scopes), **told}


def _table(known: list[TokenRow]) -> str:
    if not known:
        return "there are no tokens; antler token create creates one"
    lines = [("ID", "NAME", "ACTS AS", "SCOPES", "EXPIRES", "LAST USED")]
    for row in known:
        until = "never" if row.expires_at is None else f"{row.expires_at:%Y-%m-%d}"
        used = "never" if row.used_at is None else f"{row.used_at:%Y-%m-%d %H:00} UTC"
        lines.append((row.id, row.name, row.person, " ".join(row.scopes), until, used))
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def run(data_dir: Path, do: str, *, as_json: bool = False, **more: Any) -> int:
    """Ask the running gateway and print its answer; returns the exit code. Only the secret is printed to stdout."""
    try:
        answer = asyncio.run(_asked(data_dir, do, more))
    except NotRunning as error:
        return logs.complain(error)
    done = answer.get("done") is True
    if as_json and "data" in answer:
        print(json.dumps(answer["data"], ensure_ascii=False, indent=2))
    elif done:
        print(answer["text"])
        if do == "link":
            print(f"antler: valid once, for {LINK_LIFE.seconds // 60} minutes, as administrator", file=sys.stderr)
        if "note" in answer:
            print(f"antler: {answer['note']}; it is not shown again", file=sys.stderr)
    else:
        print(f"antler: {answer['text']}", file=sys.stderr)
    return 0 if done else 1


async def _asked(data_dir: Path, do: str, more: Mapping[str, Any]) -> dict[str, Any]:
    async with connection(data_dir) as (reader, writer):
        answer = await ask(reader, writer, "signin", do=do, **more)
        if not isinstance(answer, dict):
            raise NotRunning("the antler process sent an unexpected answer")
        return answer
