"""Passes envelopes through bolt, Slack's framework for apps: one global middleware commits, and so decides on the ack.

Made by channel.py for each account, called by connection.py for each envelope. With api.py and socket.py the only
file that touches Slack's packages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slack_bolt.app.async_app import AsyncApp
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.middleware.async_middleware import AsyncMiddleware
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_bolt.response import BoltResponse

if TYPE_CHECKING:
    import logging
    from collections.abc import Awaitable, Callable, Mapping

    from slack_sdk.web.async_client import AsyncWebClient

    from channels.slack.inbound import Kind, Me
    from channels.slack.socket import Take

_ENVELOPE = "antler.envelope"
_OK = 200
_UNAVAILABLE = 503
# What reading JSON of another shape than the expected one raises.
_NOT_UNDERSTOOD = (TypeError, AttributeError, LookupError, ValueError, RecursionError)


@dataclass(slots=True)
class _Envelope:
    """What bolt's request does not say: the envelope's type, and whether it reached our middleware."""

    kind: Kind
    reached: bool = False


class Dispatcher:
    """Of one account. take: commits an envelope's payload.

    Nothing in bolt's chain waits before `take` is called, so envelopes keep the order in which they came.
    """

    def __init__(self, client: AsyncWebClient, log: logging.Logger, me: Me, take: Take) -> None:
        self._take = take
        self._app = AsyncApp(
            name=log.name,
            logger=log,
            client=client,
            # Bolt may read the environment, for tokens and for OAuth's settings: what is given here goes first.
            signing_secret="",
            authorize=_knowing(me),
            # What remains is for HTTP, or would keep from us what we have to store.
            request_verification_enabled=False,
            ssl_check_enabled=False,
            url_verification_enabled=False,
            ignoring_self_events_enabled=False,
            attaching_function_token_enabled=False,
        )
        self._app.use(_Commit(take))

    async def take(self, kind: Kind, payload: Mapping[str, Any]) -> bool:
        """Whether the envelope is to be acked: it is committed. What bolt cannot take apart is committed as it is."""
        envelope = _Envelope(kind)
        try:
            request = AsyncBoltRequest(mode="socket_mode", body=dict(payload), context={_ENVELOPE: envelope})
        except _NOT_UNDERSTOOD:
            return await self._take(kind, payload)
        response = await self._app.async_dispatch(request)
        if not envelope.reached:
            return await self._take(kind, payload)
        return response.status == _OK


class _Commit(AsyncMiddleware):
    """Runs before anything acks, and answers itself, so that nothing stays unacked for want of a listener."""

    def __init__(self, take: Take) -> None:
        self._take = take

    async def async_process(
        self, *, req: AsyncBoltRequest, resp: BoltResponse, next: Callable[[], Awaitable[BoltResponse]]
    ) -> BoltResponse:
        envelope: _Envelope = req.context[_ENVELOPE]
        envelope.reached = True
        committed = await self._take(envelope.kind, req.body)
        return BoltResponse(status=_OK if committed else _UNAVAILABLE)


def _knowing(me: Me) -> Callable[..., Awaitable[AuthorizeResult]]:
    """Bolt's authorization without an auth.test of its own: whose the token is was asked at the start."""
    known = AuthorizeResult(enterprise_id=None, team_id=me.team, bot_user_id=me.user, user=me.username)

    async def authorize() -> AuthorizeResult:
        return known

    return authorize
