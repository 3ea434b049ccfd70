"""The helper process that queries DuckDuckGo with the package ddgs; run by harness/files/helpers.py.

A separate process, since the package reads proxies from the environment, which is empty here.
"""

from __future__ import annotations

import functools
import json
import os
import resource
import sys
from typing import Any

PROCESSOR_SECONDS = 600
CHALLENGE = "anomaly-modal"
"""Part of a page that demands proof of a human."""


def main() -> None:
    """Answer requests until the input ends."""
    resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_SECONDS, PROCESSOR_SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while line := sys.stdin.buffer.readline():
        sys.stdout.write(json.dumps(searched(json.loads(line))) + "\n")
        sys.stdout.flush()


def searched(question: dict[str, Any]) -> dict[str, Any]:
    """Run a search. status: of the response, 0 without one. results: as in every provider's answer."""
    from ddgs.engines.duckduckgo import Duckduckgo
    from ddgs.exceptions import DDGSException

    class Watched(Duckduckgo):
        """Keeps what the package does not expose: the response."""

        status = 0

        def request(self, *args: Any, **kwargs: Any) -> Any:
            response = self.http_client.request(*args, **kwargs)
            self.status = 429 if CHALLENGE in response.text else int(response.status_code)
            return response.text if self.status == 200 else None

    verify = _certificates(question["ca_file"])
    engine = Watched(proxy=question["proxy"] or None, timeout=question["seconds"], verify=verify)
    try:
        found = engine.search(question["query"], region=question["region"] or "wt-wt") or []
    except DDGSException:
        return {"status": 0, "results": []}
    listed = [{"title": each.title, "url": each.href, "content": each.body} for each in found]
    return {"status": engine.status, "results": listed}


@functools.cache
def _certificates(ca_file: str) -> bool | str:
    """A file with the usual authorities and the private one: given alone, the private one would replace them.

    Created once: it stays open for the life of the process.
    """
    if not ca_file:
        return True
    import certifi

    number = os.memfd_create("authorities")
    with open(ca_file, "rb") as private, os.fdopen(number, "wb", closefd=False) as both:
        both.write(certifi.contents().encode() + b"\n" + private.read())
    return f"/proc/self/fd/{number}"


if __name__ == "__main__":
    main()
