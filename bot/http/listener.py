"""The address of the HTTP service, bound before anything heavy is imported: clients that connect early wait."""

from __future__ import annotations

import errno
import os
import socket
import ssl
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bot.settings.http import HttpSettings


class HttpUnavailable(Exception):
    """The address cannot be listened on; the text names the key."""


def listening(settings: HttpSettings, key: str = "http.listen") -> socket.socket:
    """A bound socket for an address whose certificate, where there is one, can be read. Raises HttpUnavailable."""
    if settings.tls is not None:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(settings.tls.cert, settings.tls.key)
        except OSError as error:  # ssl.SSLError is one
            raise HttpUnavailable(f"http.tls cannot be used: {error.strerror or error.args[-1]}") from error
    host, port = settings.address
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        bound = socket.create_server(address[:2], family=family, backlog=128)
    except OSError as error:
        # The text of create_server repeats the address.
        number = error.errno or 0
        why = (os.strerror(number) if number in errno.errorcode else f"{error.strerror or error}").lower()
        raise HttpUnavailable(f"{key}: cannot listen on {settings.listen} ({why})") from error
    # Connections inherit it. asyncio sets it only where a socket names its protocol, which this one does not; without
    # it the body of an answer waits for the acknowledgement of its head, often 40 ms.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return bound
