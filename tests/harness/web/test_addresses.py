"""Which addresses may be fetched: the public internet's, written plainly; what an operator opens; and some never."""

from __future__ import annotations

import ipaddress
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.web.addresses import Refused, Rules
from harness.web.config import rule
from tests.tables import table

PUBLIC = ["93.184.215.14"]

REFUSED_AS_THEY_STAND = [
    # loopback and this host, in all notations
    "http://127.0.0.1/",
    "http://127.0.0.1:80/",
    "http://127.1/",
    "http://127.0.1/",
    "http://0/",
    "http://0.0.0.0/",
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0x7f.0.0.1/",
    "http://0177.0.0.1/",
    "http://127.0.0.01/",
    "http://localhost/",
    "http://LOCALHOST./",
    "http://foo.localhost/",
    "http://127.0.0.1./",
    # IPv6, and IPv4 within it
    "http://[::1]/",
    "http://[::]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[0:0:0:0:0:ffff:a9fe:a9fe]/",
    "http://[::ffff:8.8.8.8]/",
    "http://[::127.0.0.1]/",
    "http://[64:ff9b::a9fe:a9fe]/",
    "http://[64:ff9b:1::a00:1]/",
    "http://[2002:7f00:1::]/",
    "http://[2001:0:a9fe:a9fe::1]/",
    "http://[fec0::1]/",
    "http://[fe80::1]/",
    "http://[fe80::1%eth0]/",
    "http://[fe80::1%25eth0]/",
    "http://[2606:4700::1%25eth0]/",
    "http://[fc00::1]/",
    "http://[fd12:3456::1]/",
    "http://[ff02::1]/",
    "http://[2001:db8::1]/",
    "http://[::1/",
    # metadata
    "http://169.254.169.254/latest/meta-data/",
    "http://[fd00:ec2::254]/",
    "http://100.100.100.200/",
    "http://192.0.0.192/",
    "http://168.63.129.16/",
    "http://metadata.google.internal/computeMetadata/v1/",
    "http://metadata.goog/",
    # private, shared, reserved, documentation, benchmarks, multicast, broadcast
    "http://10.0.0.1/",
    "http://172.16.0.1/",
    "http://172.31.255.255/",
    "http://192.168.1.1/",
    "http://100.64.0.1/",
    "http://198.18.0.1/",
    "http://192.0.2.1/",
    "http://203.0.113.7/",
    "http://224.0.0.1/",
    "http://240.0.0.1/",
    "http://255.255.255.255/",
    # names of an inside
    "http://intranet/",
    "http://wiki.local/",
    "http://build.internal/",
    "http://printer.lan/",
    "http://db.corp/",
    # parts that mislead
    "http://example.com@127.0.0.1/",
    "http://user:pass@example.com/",
    "http://@example.com/",
    "http://example.com\\@127.0.0.1/",
    "http://127.0.0.1\\.example.com/",
    "http://example.com%2f@evil.test/",
    "http://exa%6dple.com/",
    "http://example.com./",
    "http://a..example.com/",
    "http://-a.example.com/",
    "http://exam ple.com/",
    "http://example.com/\n",
    "http://exa\tmple.com/",
    "http://１２７.0.0.1/",
    "http://127。0。0。1/",
    "http://8。8。8。8/",
    "http://ⓛⓞⓒⓐⓛhost/",
    "http://xn--/",
    "http://example.com/" + "x" * 5000,
    # ports
    "http://example.com:22/",
    "http://example.com:25/",
    "http://example.com:6379/",
    "http://example.com:2375/",
    "http://example.com:8080/",
    "http://93.184.215.14:8080/",
    "http://example.com:0/",
    "http://example.com:65616/",
    "http://example.com:-80/",
    "http://example.com:8o/",
    # schemes, and no address at all
    "ftp://example.com/",
    "file:///etc/passwd",
    "gopher://example.com/",
    "data:text/plain,hi",
    "javascript:alert(1)",
    "unix:///var/run/docker.sock",
    "ws://example.com/",
    "//example.com/",
    "http:/example.com",
    "http:example.com",
    "http://",
    "example.com",
    "",
]
GOOD = [
    "http://example.com/",
    "https://example.com",
    "https://EXAMPLE.com/Path?q=a@b#part",
    "https://example.com?mail=a@b",
    "https://example.com:443/",
    "http://example.com:80/x",
    "https://a-b.c_d.example.co.uk/",
    "https://bücher.example/",
    "https://例え.example/パス",
    "http://93.184.215.14/",
    "http://[2606:4700:4700::1111]/",
    "https://xn--bcher-kva.example/",
    "https://localhost.example.com/",
    "https://internal.example.com/",
]


@table("text", REFUSED_AS_THEY_STAND)
def test_it_is_refused_by_the_look_of_it(text: str) -> None:
    with pytest.raises(Refused):
        Rules().url(text)


@table("text", GOOD)
def test_it_may_be_fetched(text: str) -> None:
    rules = Rules()
    url = rules.url(text)
    rules.addresses(url.raw_host.decode("ascii"), url.port or 443, PUBLIC)


@table(
    "addresses",
    [
        ["127.0.0.1"],
        ["10.0.0.1"],
        ["169.254.169.254"],
        ["100.64.0.1"],
        ["::1"],
        ["::ffff:10.0.0.1"],
        ["64:ff9b::808:808"],
        ["fe80::1%2"],
        ["fd00::1"],
        ["0.0.0.0"],
        ["no address"],
        [],
        # one bad one among good ones
        ["93.184.215.14", "10.0.0.1"],
        ["10.0.0.1", "93.184.215.14"],
        ["93.184.215.14", "fd00::1"],
    ],
)
def test_a_name_is_refused_for_what_it_leads_to(addresses: list[str]) -> None:
    with pytest.raises(Refused):
        Rules().addresses("example.com", 443, addresses)


@table(
    ("entry", "host", "port", "address"),
    [
        ("wiki.corp", "wiki.corp", 443, "10.1.2.3"),
        ("wiki.corp:8080", "wiki.corp", 8080, "10.1.2.3"),
        ("*.corp.example", "deep.wiki.corp.example", 80, "192.168.0.9"),
        ("10.1.0.0/16", "wiki.example", 443, "10.1.2.3"),
        ("10.1.0.0/16:9000", "wiki.example", 9000, "10.1.2.3"),
        ("127.0.0.1:5000", "app.example", 5000, "127.0.0.1"),
        ("localhost", "localhost", 80, "::1"),
        ("[fd12::/32]:81", "wiki.example", 81, "fd12::7"),
        ("fd12::/32", "wiki.example", 80, "fd12::7"),
        ("example.com:8443", "example.com", 8443, "93.184.215.14"),
    ],
)
def test_the_operator_can_open_what_is_not_public(entry: str, host: str, port: int, address: str) -> None:
    rules = Rules([entry])
    rules.url(f"http://{host}:{port}/")
    rules.addresses(host, port, [address])
    with pytest.raises(Refused):
        Rules().addresses(host, port, [address])


@table(
    ("entry", "host", "port", "address"),
    [
        ("wiki.corp", "wiki.corp", 8080, "10.1.2.3"),  # a port that was not opened
        ("wiki.corp:8080", "wiki.corp", 80, "10.1.2.3"),
        ("wiki.corp", "evil.example", 80, "10.1.2.3"),  # another name for the same machine
        ("*.corp.example", "corp.example", 80, "10.1.2.3"),
        ("*.corp.example", "evilcorp.example", 80, "10.1.2.3"),
        ("10.1.0.0/16", "wiki.example", 80, "10.2.0.1"),
        ("10.1.0.0/16", "wiki.example", 80, "::ffff:10.1.2.3"),
        # what no list opens
        ("0.0.0.0/0", "example.com", 80, "169.254.169.254"),
        ("169.254.0.0/16", "example.com", 80, "169.254.169.254"),
        ("0.0.0.0/0", "example.com", 80, "0.0.0.0"),
        ("0.0.0.0/0", "example.com", 80, "100.100.100.200"),
        ("::/0", "example.com", 80, "::ffff:10.0.0.1"),
        ("::/0", "example.com", 80, "64:ff9b::a00:1"),
        ("::/0", "example.com", 80, "fe80::1"),
        ("metadata.google.internal", "metadata.google.internal", 80, "169.254.169.254"),
    ],
)
def test_it_opens_nothing_else(entry: str, host: str, port: int, address: str) -> None:
    with pytest.raises(Refused):
        Rules([entry]).addresses(host, port, [address])


@table(
    "entry", ["", "http://wiki.corp", "wiki.corp/path", "wiki corp", "wiki:port", "a:0", "a:70000", "*", "1.2.3", "x:²"]
)
def test_an_entry_that_means_nothing_is_an_error(entry: str) -> None:
    with pytest.raises(ValueError, match="should be"):
        rule(entry)


@table("text", REFUSED_AS_THEY_STAND)
def test_a_refusal_tells_the_model_what_to_do_and_no_address(text: str) -> None:
    with pytest.raises(Refused) as refused:
        Rules().url(text)
    assert str(refused.value).endswith(".")
    assert "Traceback" not in str(refused.value)


@given(st.text(max_size=60))
def test_any_text_is_either_an_address_or_refused(text: str) -> None:
    for candidate in (text, f"http://{text}", f"https://example.com/{text}", f"http://127.0.0.1{text}"):
        try:
            url = Rules().url(candidate)
        except Refused:
            continue
        host = url.raw_host.decode("ascii")
        assert host == host.lower()
        if (address := numeric(host)) is not None:
            assert str(address) == host
            assert address.is_global


def numeric(host: str) -> ipaddress.IPv4Address | None:
    """What the C library takes a host for without asking anybody."""
    try:
        return ipaddress.IPv4Address(socket.inet_aton(host))
    except OSError:
        return None


@given(st.ip_addresses())
def test_what_may_be_connected_to_is_global(address: object) -> None:
    """Python's own idea of global addresses is never wider than what is refused here."""
    parsed = ipaddress.ip_address(str(address))
    try:
        Rules().addresses("example.com", 443, [str(parsed)])
    except Refused:
        return
    assert parsed.is_global
    assert not parsed.is_multicast
