"""A process with a pool and a server, to be killed: prints the ids of the server and of its daemon."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.harness.mcp.conftest import Bench, text_of
from tests.simulators.mcp.reports import listening


async def main() -> None:
    async with listening() as reports:
        bench = Bench(Path(sys.argv[1]), reports)
        async with bench.pool(play=bench.stdio()) as pool:
            print(await text_of(pool, "leave_child"), flush=True)
            await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
