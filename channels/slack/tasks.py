"""Parts of the receiving that live and end with each other. Called by channel.py."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine


async def together(*parts: Coroutine[Any, Any, None]) -> None:
    """Run all parts until one ends or raises, which none does by itself but for a reason; then end the others."""
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
