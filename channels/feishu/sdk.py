"""The parts of lark-oapi that Antler uses, loaded without the rest: frames, requests and their JSON.

`import lark_oapi` loads all of its API, 10 962 modules and 147 MB, in the `__init__` of its packages. While this module
is imported, empty packages replace those, so that only the modules named here load; afterwards they are removed.
Nothing else in a gateway imports lark_oapi, so no thread can encounter an empty package (docs/decisions/0006).
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import re
import sys
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_BARE = (
    "lark_oapi",
    "lark_oapi.api",
    "lark_oapi.api.cardkit",
    "lark_oapi.api.cardkit.v1",
    "lark_oapi.api.cardkit.v1.model",
    "lark_oapi.api.contact",
    "lark_oapi.api.contact.v3",
    "lark_oapi.api.contact.v3.model",
    "lark_oapi.api.im",
    "lark_oapi.api.im.v1",
    "lark_oapi.api.im.v1.model",
    "lark_oapi.core",  # would add ciphers, and a log handler that writes to stdout
    "lark_oapi.core.model",
    "lark_oapi.ws",
    "lark_oapi.ws.pb",
    "lark_oapi.ws.pb.google",  # would load pkg_resources, which is more expensive than all the rest
)


@contextlib.contextmanager
def _bare_packages() -> Iterator[None]:
    """Placeholders for the SDK's packages, unless the whole SDK is already loaded. Raises ModuleNotFoundError."""
    spec = importlib.util.find_spec("lark_oapi")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("No module named 'lark_oapi'", name="lark_oapi")
    made = [name for name in _BARE if name not in sys.modules]
    for name in made:
        package = sys.modules[name] = ModuleType(name)
        package.__path__ = [os.path.join(spec.submodule_search_locations[0], *name.split(".")[1:])]
    try:
        yield
    finally:
        for name in made:
            del sys.modules[name]


def _models(api: str, *names: str) -> SimpleNamespace:
    """Classes of one API. Each is in a separate module, whose name is the class's in snake case."""
    modules = {name: re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower() for name in names}
    return SimpleNamespace(
        **{
            name: getattr(importlib.import_module(f"lark_oapi.api.{api}.model.{module}"), name)
            for name, module in modules.items()
        }
    )


with _bare_packages():
    from lark_oapi.core.enum import AccessTokenType, HttpMethod

    vars(sys.modules["lark_oapi.core"]).update(AccessTokenType=AccessTokenType, HttpMethod=HttpMethod)
    from lark_oapi.core.model.base_request import BaseRequest

    vars(sys.modules["lark_oapi.core.model"]).update(BaseRequest=BaseRequest)
    from lark_oapi.core.json import JSON
    from lark_oapi.ws import const
    from lark_oapi.ws.enum import FrameType, MessageType
    from lark_oapi.ws.pb.google.protobuf.message import DecodeError
    from lark_oapi.ws.pb.pbbp2_pb2 import Frame

    cardkit = _models(
        "cardkit.v1",
        "Card",
        "ContentCardElementRequest",
        "ContentCardElementRequestBody",
        "CreateCardRequest",
        "CreateCardRequestBody",
        "SettingsCardRequest",
        "SettingsCardRequestBody",
        "UpdateCardRequest",
        "UpdateCardRequestBody",
    )
    contact = _models("contact.v3", "GetUserRequest")
    im = _models(
        "im.v1",
        "CreateFileRequest",
        "CreateFileRequestBody",
        "CreateImageRequest",
        "CreateImageRequestBody",
        "CreateMessageReactionRequest",
        "CreateMessageReactionRequestBody",
        "CreateMessageRequest",
        "CreateMessageRequestBody",
        "DeleteMessageReactionRequest",
        "DeleteMessageRequest",
        "Emoji",
        "GetChatRequest",
        "GetMessageRequest",
        "GetMessageResourceRequest",
        "PatchMessageRequest",
        "PatchMessageRequestBody",
        "ReplyMessageRequest",
        "ReplyMessageRequestBody",
        "UpdateMessageRequest",
        "UpdateMessageRequestBody",
    )

__all__ = ["JSON", "BaseRequest", "DecodeError", "Frame", "FrameType", "HttpMethod", "MessageType", "build", "const"]


def build(kind: Any, **fields: Any) -> Any:
    """Create a request or a part of one with its builder. Raises AttributeError for a field that does not exist."""
    builder = kind.builder()
    for name, value in fields.items():
        builder = getattr(builder, name)(value)
    return builder.build()
