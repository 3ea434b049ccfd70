"""The app's side with the real SDK, for the simulator's own tests: its API client; its long connection in a thread."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import lark_oapi
import lark_oapi.ws.client as ws_client
from lark_oapi.event.callback.model.p2_card_action_trigger import P2CardActionTriggerResponse

from tests.simulators.feishu.client import FeishuSimulator

Json = dict[str, Any]
PATIENCE = 10.0

# Importing the SDK creates a loop that is never closed; each connection gets its own.
if not ws_client.loop.is_running():
    ws_client.loop.close()

EVENTS = (
    "im_message_receive_v1",
    "im_message_recalled_v1",
    "im_message_reaction_created_v1",
    "im_message_reaction_deleted_v1",
    "im_chat_member_bot_added_v1",
    "im_chat_member_bot_deleted_v1",
    "im_chat_access_event_bot_p2p_chat_entered_v1",
)


def api_client(feishu: FeishuSimulator) -> Any:
    """The SDK's API client of this app; its calls block, so tests make them in threads."""
    builder = lark_oapi.Client.builder().app_id(feishu.app_id).app_secret(feishu.app_secret)
    return builder.domain(feishu.domain).timeout(5).build()


class LongConnection:
    """The SDK's websocket client with its own loop in its own thread; what it received, and how it ended.

    refuse: number of events that fail in the handler. answer: the answer to presses. error: why start() ended.
    """

    def __init__(self, feishu: FeishuSimulator) -> None:
        self.received: asyncio.Queue[Any] = asyncio.Queue()
        self.refuse = 0
        self.answer: Json = {}
        self.error: BaseException | None = None
        self._ended = False
        self._ending = threading.Lock()  # a loop that ends by itself takes no more calls
        self._home = asyncio.get_running_loop()
        self._feishu = feishu
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._live, name="feishu-sdk", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def _handler(self) -> Any:
        builder = lark_oapi.EventDispatcherHandler.builder("", "", lark_oapi.LogLevel.CRITICAL)
        for name in EVENTS:
            builder = getattr(builder, f"register_p2_{name}")(self._take)
        return builder.register_p2_card_action_trigger(self._press).build()

    def _take(self, event: Any) -> None:
        self._home.call_soon_threadsafe(self.received.put_nowait, event)
        if self.refuse > 0:
            self.refuse -= 1
            raise RuntimeError("not committed")

    def _press(self, event: Any) -> P2CardActionTriggerResponse:
        self._take(event)
        return P2CardActionTriggerResponse(self.answer)

    def _live(self) -> None:
        """The SDK takes its loop from a module global and blocks in start() for ever."""
        self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)
        ws_client.loop = self._loop
        feishu = self._feishu
        self._client = ws_client.Client(
            feishu.app_id,
            feishu.app_secret,
            event_handler=self._handler(),
            domain=feishu.domain,
            log_level=lark_oapi.LogLevel.CRITICAL,
        )
        self._ready.set()
        try:
            self._client.start()
        except Exception as error:  # the test checks it
            self.error = error
        finally:
            self._finish()

    def _finish(self) -> None:
        with self._ending:
            self._ended = True
        # A stop() just before leaves a call that would end the next run of the loop instead.
        self._loop.call_soon(self._loop.stop)
        self._loop.run_forever()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.run_until_complete(self._client._disconnect())
        self._loop.close()

    async def stop(self) -> None:
        """End the SDK's client, which has no method for that, and its thread."""
        await asyncio.to_thread(self._ready.wait, PATIENCE)
        with self._ending:
            if not self._ended:
                self._loop.call_soon_threadsafe(self._loop.stop)
        await asyncio.to_thread(self._thread.join, PATIENCE)

    async def next(self) -> Any:
        """The next event, as the SDK's object."""
        return await asyncio.wait_for(self.received.get(), PATIENCE)


@asynccontextmanager
async def long_connection(feishu: FeishuSimulator, *, connected: bool = True) -> AsyncIterator[LongConnection]:
    """A running SDK client; connected: wait for its connection first."""
    connection = LongConnection(feishu)
    connection.start()
    try:
        if connected:
            await feishu.wait_connected(more=True)
        yield connection
    finally:
        await connection.stop()


async def called(method: Callable[..., Any], *args: Any) -> Any:
    """Make a blocking call of the SDK in a thread."""
    return await asyncio.to_thread(method, *args)
