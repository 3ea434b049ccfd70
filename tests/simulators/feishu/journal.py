"""The record of a request to the platform's side."""

from dataclasses import dataclass, field

from tests.simulators.journal import Call


@dataclass(kw_only=True)
class Record(Call):
    """See Call. method: the endpoint's name (see routes.py), "unknown" for one that the simulator lacks.

    params: the JSON body or the form's fields (a file as {name, size, type}); secrets are masked.
    code: of the answer; 0 for success, None before the answer and for answers without JSON.
    """

    app_id: str | None = None
    query: dict[str, str] = field(default_factory=dict)
    chat_id: str | None = None
    message_id: str | None = None
    card_id: str | None = None
    code: int | None = None
