"""`python -m tests.simulators.transcription [CERT KEY]`: serves on a free loopback port until its parent is gone.

With a certificate and its key (PEM files) it speaks TLS, the control side included.
"""

import asyncio
import ssl
import sys

from tests.simulators.serving import serve
from tests.simulators.transcription.server import TranscriptionServer


def _tls(certificate: list[str]) -> ssl.SSLContext | None:
    if not certificate:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate)
    return context


if __name__ == "__main__":
    asyncio.run(serve(TranscriptionServer().app(), tls=_tls(sys.argv[1:])))
