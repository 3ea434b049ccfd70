"""A raw HTTP client of the open platform, for the simulator's own tests: what is on the wire, without the SDK."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from tests.simulators.feishu.client import FeishuSimulator
from tests.simulators.feishu.seen import Place

Json = dict[str, Any]


class Api:
    """Calls endpoints with a tenant token; answers are JSON bodies, refusals included."""

    def __init__(self, feishu: FeishuSimulator, http: httpx.AsyncClient) -> None:
        self.feishu = feishu
        self.http = http

    @classmethod
    @asynccontextmanager
    async def of(cls, feishu: FeishuSimulator) -> AsyncIterator["Api"]:
        """A client of an app that already has its token."""
        async with httpx.AsyncClient(base_url=f"{feishu.domain}/open-apis", trust_env=False, timeout=5.0) as http:
            api = cls(feishu, http)
            http.headers["Authorization"] = f"Bearer {await api.new_token()}"
            yield api

    async def new_token(self) -> str:
        """A tenant token."""
        body = {"app_id": self.feishu.app_id, "app_secret": self.feishu.app_secret}
        answer = await self.http.post("/auth/v3/tenant_access_token/internal", json=body)
        return str(answer.json()["tenant_access_token"])

    async def call(self, http_method: str, path: str, body: Json | None = None, **query: str) -> Json:
        """The body of the answer."""
        answer = await self.http.request(http_method, path, json=body, params=query)
        assert answer.headers["X-Tt-Logid"]
        result: Json = answer.json()
        return result

    async def send(self, chat: Place, msg_type: str, content: Json, **more: Any) -> Json:
        """Create a message."""
        receive_id = self.feishu.chat_id(chat)
        body = {"receive_id": receive_id, "msg_type": msg_type, "content": json.dumps(content), **more}
        return await self.call("POST", "/im/v1/messages", body, receive_id_type="chat_id")

    async def say(self, chat: Place, text: str, **more: Any) -> str:
        """Send a text; returns its message id."""
        answer = await self.send(chat, "text", {"text": text}, **more)
        return str(answer["data"]["message_id"])

    async def new_card(self, card: Json) -> Json:
        """Create a card entity."""
        return await self.call("POST", "/cardkit/v1/cards", {"type": "card_json", "data": json.dumps(card)})

    async def streaming_card(self, chat: Place, text: str = "") -> tuple[str, str]:
        """Send a streaming card with the element md1; returns its card id and message id."""
        card_id = str((await self.new_card(streaming_card(text)))["data"]["card_id"])
        sent = await self.send(chat, "interactive", {"type": "card", "data": {"card_id": card_id}})
        return card_id, str(sent["data"]["message_id"])

    async def stream(self, card_id: str, text: str, sequence: int, **more: Any) -> Json:
        """Set the full text of md1."""
        path = f"/cardkit/v1/cards/{card_id}/elements/md1/content"
        return await self.call("PUT", path, {"content": text, "sequence": sequence, **more})

    async def settings(self, card_id: str, sequence: int, **config: Any) -> Json:
        """Change a card's config."""
        body = {"settings": json.dumps({"config": config}), "sequence": sequence}
        return await self.call("PATCH", f"/cardkit/v1/cards/{card_id}/settings", body)


def streaming_card(text: str = "", *more: Json) -> Json:
    """A card that streams into md1; more: further elements."""
    return {
        "schema": "2.0",
        "config": {"streaming_mode": True, "summary": {"content": "..."}},
        "body": {"elements": [{"tag": "markdown", "element_id": "md1", "content": text}, *more]},
    }


def button(label: str, value: Json | None = None, **more: Any) -> Json:
    """A button that calls the app back."""
    behaviors = [{"type": "callback", "value": value or {"press": label}}]
    return {"tag": "button", "text": {"tag": "plain_text", "content": label}, "behaviors": behaviors, **more}
