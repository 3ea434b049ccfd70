"""What can go wrong with a server; the texts are for operators and hold no secret."""

from __future__ import annotations


class ServerFailed(Exception):
    """The connection to a server does not come about, or has ended."""


class CallFailed(Exception):
    """A call has no result. happened: whether the server may have done what was asked. said: the server's own words."""

    def __init__(self, text: str, *, happened: bool, said: str = "") -> None:
        super().__init__(text)
        self.happened = happened
        self.said = said
