"""Puts together what listens to voice messages, as the settings ask for it; for gateway.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.voice.listener import AT_ONCE, Deaf, Listener
from bot.voice.recoding import Recoder
from channels.base import Route

if TYPE_CHECKING:
    from bot.files.sandboxes import Sandboxes
    from bot.settings import Settings
    from bot.voice.listener import Hearing
    from channels.base import Clock


def make_hearing(settings: Settings, sandboxes: Sandboxes, clock: Clock) -> Hearing:
    """Needs a running loop."""
    transcription = settings.transcription
    if transcription is None:
        return Deaf()
    # Here, not at the top: with it comes aiohttp, which a gateway that listens to nothing may not need.
    from bot.voice.service import TranscriptionService

    proxy, ca_file = settings.network_route(transcription.base_url)
    service = TranscriptionService(transcription, Route(proxy=proxy, ca_file=ca_file), clock, AT_ONCE)
    return Listener(transcription, service, Recoder(sandboxes), clock)
