"""What Antler loads of lark-oapi: a few modules, never its packages; and the two live together in one process."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from channels.feishu.sdk import build, im

USE = """
import json, sys
from channels.feishu import channel, sdk, socket
frame = socket.read_frame(socket.ping(7))
socket.acknowledged(frame, b"{}", 1), str(frame)
body = sdk.build(sdk.im.CreateMessageRequestBody, receive_id="oc_1")
sdk.JSON.marshal(sdk.build(sdk.im.CreateMessageRequest, receive_id_type="chat_id", request_body=body).body)
loaded = sorted(name for name in sys.modules if name.partition(".")[0] in ("lark_oapi", "Crypto", "pkg_resources"))
"""


def run(code: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    loaded: list[str] = json.loads(done.stdout)
    return loaded


def test_65_modules_come_in_and_no_package_of_the_sdk_runs() -> None:
    loaded = run(USE + "print(json.dumps(loaded))")
    assert len(loaded) == 65
    packages = {name for name in loaded if any(other.startswith(name + ".") for other in loaded)}
    assert packages == {"lark_oapi.ws.pb.google.protobuf", "lark_oapi.ws.pb.google.protobuf.internal"}


@pytest.mark.parametrize("first", ["channels.feishu.sdk", "lark_oapi"])
def test_the_whole_sdk_can_be_loaded_before_and_after(first: str) -> None:
    check = """
import lark_oapi
from lark_oapi.ws.pb.pbbp2_pb2 import Frame
client = lark_oapi.Client.builder().app_id("cli_a").app_secret("b").build()
print(json.dumps([str(Frame is sdk.Frame), str(lark_oapi.im.v1.CreateMessageRequest is sdk.im.CreateMessageRequest)]))
"""
    assert run(f"import {first}\n{USE}{check}") == ["True", "True"]


def test_a_field_that_a_request_does_not_have_is_an_error() -> None:
    with pytest.raises(AttributeError):
        build(im.CreateMessageRequest, receive_id_typ="chat_id")
