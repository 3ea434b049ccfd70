"""Errors of MCP servers; the texts are for operators and contain no secrets."""

from __future__ import annotations


class ServerFailed(Exception):
    """The connection to a server could not be made, or has ended."""


class CallFailed(Exception):
    """A call has no result. happened: whether the server may have executed it. said: the server's own words."""

    def __init__(self, text: str, *, happened: bool, said: str = "") -> None:
        super().__init__(text)
        self.happened = happened
        self.said = said
