"""What can go wrong on the web, for the tools: the texts are for the model and say what to try."""

from __future__ import annotations


class WebError(Exception):
    """Nothing was had. The text is for the model: no secret, no address of an inside."""


class Refused(WebError):
    """The address may not be fetched. The text says why, and what an operator could allow."""
