"""The way out: listed hosts at public addresses, through the proxy alone, and nothing else of the network."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import threading
import uuid
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from sandbox.config import SandboxSettings
from sandbox.egress.guard import THREADS, Names, is_host_name, is_listed, is_public
from sandbox.egress.proxy import IDLE_SECONDS, EgressProxy, send_to
from sandbox.egress.requests import UNRECOGNIZED_NAME, forward_body
from sandbox.files.workspace import Workspaces
from sandbox.local.bubblewrap import BubblewrapProvider
from tests.sandbox.conftest import private_folder
from tests.sandbox.escapes.world import World
from tests.sandbox.local.test_process import FewWatches
from tests.sandbox.modes import BUBBLEWRAP_ROOT, BUBBLEWRAP_USER, Driver, Mode
from tests.sandbox.test_escapes import attempt_everything
from tests.tables import table

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

LONG = 60.0
EGRESS = {"network": {"mode": "egress", "allow": ["ok.example.org"]}}

INSIDE = (
    *("127.0.0.1", "0.0.0.0", "10.1.2.3", "100.64.0.1", "100.100.100.200", "169.254.169.254", "172.16.0.1"),
    *("192.0.0.192", "192.0.2.1", "192.168.1.1", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255"),
    *("168.63.129.16", "::1", "::", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1", "64:ff9b::a9fe:a9fe"),
    *("64:ff9b:1::1", "2002:7f00:1::", "2001:0:a9fe:a9fe::1", "2001:db8::1", "fec0::1", "fe80::1", "fe80::1%eth0"),
    *("fd00:ec2::254", "ff02::1", "100::1", "3fff::1", "", "localhost", "0x7f000001", "127.1", "2130706433"),
)


@table("address", INSIDE)
def test_addresses_inside(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "151.101.0.223", "2606:4700::1111", "2a04:4e42::223"])
def test_public_addresses(address: str) -> None:
    assert is_public(address)


@table(
    "host",
    [
        *("localhost", "127.0.0.1", "2130706433", "0x7f.1", "a.0x7f", "[::1]", "evil\0.example.org", "a..b", ".a.b"),
        *(
            "example.org.",
            "ex%61mple.org",
            "exa_mple.org",
            "-a.org",
            "ex\u00e4mple.org",
            "a" * 64 + ".org",
            "",
            "a.b/c",
        ),
    ],
)
def test_what_is_no_host_name(host: str) -> None:
    assert not is_host_name(host)


def test_the_list_means_what_it_says() -> None:
    allow = ("api.net", "*.example.org")
    assert is_listed("api.net", allow)
    assert is_listed("a.b.example.org", allow)
    for host in ("evilapi.net", "a.api.net", "example.org", "evilexample.org", "api.net.evil.net"):
        assert not is_listed(host, allow)


class Origin:
    """A host of the internet, on this machine: it answers every connection and keeps what it heard. patience: seconds
    for which it goes on listening before it answers."""

    def __init__(self, patience: float = 0) -> None:
        self.port = 0
        self.heard: list[bytes] = []
        self._patience = patience

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[None]:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:  # the proxy had nothing for it
                return writer.close()
            more = bytearray()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._patience):
                    while data := await reader.read(1000):
                        more += data
            self.heard.append(head + more)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        async with server:
            yield


@pytest.fixture
async def origin() -> AsyncIterator[Origin]:
    made = Origin()
    async with made.serve():
        yield made


def proxy_to(
    origin: Origin,
    *,
    addresses: tuple[str, ...] = ("127.0.0.1",),
    public: bool = True,
    idle_seconds: float = IDLE_SECONDS,
) -> EgressProxy:
    """A proxy for which ok.example.org is at these addresses of this machine, public ones if so said."""

    async def resolve(host: str, port: int) -> list[str]:
        assert host == "ok.example.org"
        return list(addresses)

    judge = (lambda address: True) if public else is_public
    ports = frozenset({origin.port})
    return EgressProxy(("ok.example.org",), ports=ports, resolve=resolve, public=judge, idle_seconds=idle_seconds)


def greeting(name: str | None, newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> str:
    """What a client of TLS says first."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.maximum_version = newest
    said = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), said, server_hostname=name).do_handshake()
    return said.read().decode("latin-1")


async def asked(proxy: EgressProxy, request: str) -> str:
    listener = socket.create_server(("127.0.0.1", 0))
    address = listener.getsockname()
    async with asyncio.timeout(LONG), proxy.serve(listener, "thread"):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(request.encode("latin-1"))
        answer = (await reader.read()).decode()
        writer.close()
        await writer.wait_closed()
        return answer


async def test_a_plain_request_goes_to_its_host_only(origin: Origin) -> None:
    url = f"http://ok.example.org:{origin.port}/path?q=1"
    answer = await asked(
        proxy_to(origin), f"GET {url} HTTP/1.1\r\nHost: other.net\r\nProxy-Authorization: x\r\nA: b\r\n\r\n"
    )
    assert answer.endswith("hello")
    host = f"Host: ok.example.org:{origin.port}"
    assert origin.heard == [f"GET /path?q=1 HTTP/1.1\r\n{host}\r\nA: b\r\nConnection: close\r\n\r\n".encode()]


@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_tunnel(origin: Origin, newest: ssl.TLSVersion) -> None:
    target, said = f"OK.example.org:{origin.port}", greeting("ok.example.org", newest) + "\r\n\r\n"
    answer = await asked(proxy_to(origin), f"CONNECT {target} HTTP/1.1\r\n\r\n{said}")
    assert answer.startswith("HTTP/1.1 200 Connection established\r\n\r\n")
    assert answer.endswith("hello")
    assert origin.heard == [said.encode("latin-1")], "as it came"


@pytest.mark.parametrize(
    "said",
    [greeting("other.net"), greeting(None), "GET / HTTP/1.1\r\nHost: other.net\r\n\r\n", "\x16\x03\x01" + 9 * "x"],
)
async def test_a_tunnel_is_for_tls_to_the_host_that_it_was_asked_for(origin: Origin, said: str) -> None:
    answer = await asked(proxy_to(origin), f"CONNECT ok.example.org:{origin.port} HTTP/1.1\r\n\r\n{said}")
    assert answer == "HTTP/1.1 200 Connection established\r\n\r\n" + UNRECOGNIZED_NAME.decode("latin-1")
    assert origin.heard == []


@pytest.mark.parametrize(
    ("headers", "body", "passed"),
    [
        ("", "", ""),
        ("Content-Length: 3\r\n", "abc", "abc"),
        ("Transfer-Encoding: chunked\r\n", "3;x=y\r\nabc\r\n0\r\nA: b\r\n\r\n", "3\r\nabc\r\n0\r\n\r\n"),
    ],
)
async def test_one_request_a_connection(headers: str, body: str, passed: str) -> None:
    origin = Origin(patience=0.5)
    async with origin.serve():
        url = f"http://ok.example.org:{origin.port}/"
        further = "GET / HTTP/1.1\r\nHost: other.net\r\n\r\n"
        answer = await asked(proxy_to(origin), f"POST {url} HTTP/1.1\r\n{headers}\r\n{body}{further}")
    assert answer.endswith("hello")
    (heard,) = origin.heard
    assert heard.decode().partition("\r\n\r\n")[2] == passed


@pytest.mark.parametrize(
    "headers",
    [
        "A: b\r\n Host: other.net",
        "A: b\r\n\tHost: other.net",
        "Host : other.net",
        "nothing",
        "Content-Length: 1\r\nContent-Length: 2",
        "Content-Length: +1",
        "Content-Length: 1\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: gzip, chunked",
        "A: b\0c",
        "A:" + " " * 20_000 + "\0",
        "A: b" + " \t" * 10_000 + "\0",
    ],
)
async def test_headers_that_servers_read_differently_are_refused(origin: Origin, headers: str) -> None:
    answer = await asked(proxy_to(origin), f"GET http://ok.example.org:{origin.port}/ HTTP/1.1\r\n{headers}\r\n\r\n")
    assert answer.startswith("HTTP/1.1 400 ")
    assert origin.heard == []


async def test_only_what_is_for_the_proxy_is_left_out(origin: Origin) -> None:
    ours = "Connection: keep-alive, Upgrade\r\nUpgrade: h2c\r\nProxy-Connection: keep-alive\r\nKeep-Alive: 5\r\n"
    theirs = "Upgrade-Insecure-Requests: 1\r\nHostname: h\r\nConnection-Id: 7\r\nEmpty: \r\n"
    await asked(proxy_to(origin), f"GET http://ok.example.org:{origin.port}/ HTTP/1.1\r\n{ours}{theirs}\r\n")
    (heard,) = origin.heard
    host = f"Host: ok.example.org:{origin.port}\r\n"
    assert heard.decode() == f"GET / HTTP/1.1\r\n{host}{theirs}Connection: close\r\n\r\n"


async def test_a_body_of_tiny_chunks_lets_others_work(origin: Origin) -> None:
    source, sent, turns = asyncio.StreamReader(), 0, 0
    source.feed_data(b"1\r\na\r\n" * 5000 + b"0\r\n\r\n")
    _, target = await asyncio.open_connection("127.0.0.1", origin.port)

    async def send(data: bytes) -> None:
        nonlocal sent
        sent += len(data)
        await send_to(data, target, lambda: None)

    async def others() -> None:
        nonlocal turns
        while sent < 25_000:
            turns += 1
            await asyncio.sleep(0)

    async with asyncio.timeout(LONG), asyncio.TaskGroup() as both:
        both.create_task(others())
        both.create_task(forward_body(None, source, send))
    target.close()
    assert turns > 1000


def test_a_command_has_its_way_out_once_the_kernel_has_a_watch_for_it() -> None:
    selector = FewWatches()

    async def ask() -> str:
        origin = Origin()
        listener = socket.create_server(("127.0.0.1", 0))
        async with origin.serve(), asyncio.timeout(LONG), proxy_to(origin).serve(listener, "thread"):
            selector.only_pipes, selector.refused = False, 1
            await asyncio.sleep(0)
            assert not selector.refused, "it was tried"
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            writer.write(f"GET http://ok.example.org:{origin.port}/ HTTP/1.1\r\n\r\n".encode())
            answer = await reader.read()
            writer.close()
            return answer.decode()

    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        assert runner.run(ask()).endswith("hello")


async def test_who_says_nothing_is_let_go() -> None:
    origin = Origin(patience=LONG)
    async with origin.serve():
        proxy = proxy_to(origin, idle_seconds=0.2)
        assert await asked(proxy, f"GET http://ok.example.org:{origin.port}/ HTTP/1.1\r\n\r\n") == ""


async def test_threads_that_hold_all_connections_leave_some_for_another(origin: Origin) -> None:
    proxy = proxy_to(origin)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(asyncio.timeout(LONG))
        for thread in range(8):
            listener = socket.create_server(("127.0.0.1", 0), backlog=64)
            await stack.enter_async_context(proxy.serve(listener, thread))
            for _ in range(40):
                stack.enter_context(contextlib.closing(socket.create_connection(listener.getsockname())))
        for _ in range(1000):
            await asyncio.sleep(0)
        answer = await asked(proxy, f"GET http://ok.example.org:{origin.port}/ HTTP/1.1\r\n\r\n")
        assert answer.endswith("hello")


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("evil.example.org:{port}", "403"),
        ("127.0.0.1:{port}", "403"),
        ("ok.example.org.:{port}", "403"),
        ("ok.example.org\0.evil.net:{port}", "403"),
        ("ok.example.org:22", "403"),
        ("[::1]:{port}", "403"),
        ("ok.example.org", "400"),
        ("ok.example.org:x", "400"),
        ("ok.example.org:" + "9" * 5000, "400"),
    ],
)
async def test_what_is_not_listed_is_refused(origin: Origin, target: str, status: str) -> None:
    answer = await asked(proxy_to(origin), f"CONNECT {target.format(port=origin.port)} HTTP/1.1\r\n\r\n")
    assert answer.startswith(f"HTTP/1.1 {status} ")
    assert origin.heard == []


@pytest.mark.parametrize("addresses", [("127.0.0.1",), ("8.8.8.8", "127.0.0.1"), ("::ffff:127.0.0.1",), ()])
async def test_a_listed_name_at_an_address_inside_is_refused(origin: Origin, addresses: tuple[str, ...]) -> None:
    proxy = proxy_to(origin, addresses=addresses, public=False)
    answer = await asked(proxy, f"CONNECT ok.example.org:{origin.port} HTTP/1.1\r\n\r\n")
    assert answer.startswith("HTTP/1.1 403 ")
    assert origin.heard == []


@pytest.mark.parametrize(
    "request_",
    [
        "\x16\x03\x01 hello\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET ftp://a.b/ HTTP/1.1\r\n\r\n",
        "GET http://ok.example.org/ HTTP/1.1\r\nA: b\nHost: other.example.org\r\n\r\n",
    ],
)
async def test_what_is_no_request_is_refused(origin: Origin, request_: str) -> None:
    assert (await asked(proxy_to(origin), request_)).startswith("HTTP/1.1 400 ")


async def test_names_that_hang_hold_back_no_work_of_the_gateway() -> None:
    release, looking = threading.Event(), threading.Semaphore(0)

    def hang(host: str, port: int) -> list[str]:
        looking.release()
        assert release.wait(LONG)
        return [host]

    names = Names(hang)
    asked = [asyncio.create_task(names.resolve(f"{number}.example.org", 443)) for number in range(100)]
    try:
        async with asyncio.timeout(LONG):
            for _ in range(THREADS):
                assert await asyncio.to_thread(looking.acquire, timeout=LONG)
            assert await asyncio.to_thread(int, "7") == 7
        names.close()
    finally:
        release.set()
    answered = await asyncio.gather(*asked, return_exceptions=True)
    assert answered[:THREADS] == [[f"{number}.example.org"] for number in range(THREADS)]
    assert all(isinstance(answer, asyncio.CancelledError) for answer in answered[THREADS:])


async def test_the_proxy_ends_its_lookups_with_the_provider(tmp_path: Path) -> None:
    BUBBLEWRAP_USER.require()
    settings = SandboxSettings()
    proxy = EgressProxy(("ok.example.org",))
    workspaces = Workspaces(lambda thread: tmp_path / thread / "user-data", settings)
    provider = BubblewrapProvider(settings, workspaces, instance=f"egress-{uuid.uuid4().hex[:8]}", proxy=proxy)
    await provider.start()
    await provider.shutdown()
    answer = await asked(proxy, "CONNECT ok.example.org:443 HTTP/1.1\r\n\r\n")
    assert answer.startswith("HTTP/1.1 502 ")


async def test_a_flood_of_connections_takes_few_descriptors_and_little_time(origin: Origin) -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    address = listener.getsockname()
    async with asyncio.timeout(LONG), proxy_to(origin).serve(listener, "thread"):
        clients = [socket.create_connection(address) for _ in range(100)]
        before = len(os.listdir("/proc/self/fd"))
        more = 0
        for _ in range(1000):
            await asyncio.sleep(0)
            more = max(more, len(os.listdir("/proc/self/fd")) - before)
        for client in clients:
            client.close()
    assert more == 32


async def test_a_command_reaches_a_listed_host_through_the_proxy(tmp_path: Path, origin: Origin) -> None:
    BUBBLEWRAP_USER.require()
    settings = SandboxSettings()
    workspaces = Workspaces(lambda thread: tmp_path / thread / "user-data", settings)
    provider = BubblewrapProvider(
        settings, workspaces, instance=f"egress-{uuid.uuid4().hex[:8]}", proxy=proxy_to(origin)
    )
    await provider.start()
    sandbox = await provider.acquire("t")
    fetch = 'python3 -c "import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).read())" {} 2>&1 | tail -n 1'
    reached, refused = [
        (await sandbox.execute_command(fetch.format(f"http://{host}:{origin.port}/"), timeout=LONG)).output
        for host in ("ok.example.org", "evil.example.org")
    ]
    await provider.shutdown()
    assert reached == "b'hello'\n"
    assert "403" in refused


@pytest.mark.parametrize("mode", [BUBBLEWRAP_ROOT, BUBBLEWRAP_USER], ids=["root", "user"])
def test_with_a_way_out_nothing_else_gets_out(mode: Mode) -> None:
    mode.require()
    with World(mode.user) as world:
        driver = Driver(mode, private_folder(world.top / "data", mode), settings=EGRESS)
        escaped, _ = attempt_everything(world, driver)
        assert escaped == {}
