"""The record of a request to the platform's side."""

from dataclasses import dataclass, field

from tests.simulators.journal import Call


@dataclass(kw_only=True)
class Record(Call):
    """See Call. encodings: the sources of the parameters, of "query", "form", "json", "multipart", "raw".

    error: the Web API's error code, "" for none. ts: of the message that the call made or changed.
    """

    app_id: str | None = None
    team_id: str | None = None
    encodings: list[str] = field(default_factory=list)
    channel: str | None = None
    error: str = ""
    ts: str | None = None
