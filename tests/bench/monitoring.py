"""`python -m tests.bench.monitoring`: the cost of the HTTP listener and of log events.

Real processes of `antler run` with the terminal and the demo model, each measured once it is idle: with and without
`http.listen`. The log is measured separately, configured as by a gateway: an event of an answer, formatted, redacted,
written to the error stream and to the file.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from statistics import median
from typing import Any

from bot.clock import Durations
from bot.control import logs
from bot.redaction import Redactor

RUNS, SCRAPES, EVENTS = 3, 200, 20_000
SECRETS = [f"sk-0123456789abcdef-{number}" for number in range(5)]
IMPORTS = """
import os, time
import bot.process.gateway, bot.process.wiring, harness.run.runner
pages = lambda: int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
began, before = time.process_time(), pages()
import bot.http.server, bot.http.metrics, bot.http.health
print(time.process_time() - began, pages() - before)
"""


def imported() -> tuple[float, float]:
    """CPU seconds and MB that the listener's modules add to a gateway's."""
    found = [subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True) for _ in range(RUNS)]
    figures = [tuple(map(float, each.stdout.split())) for each in found]
    return median(seconds for seconds, _ in figures), median(size for _, size in figures)


def idle(*, listens: bool) -> tuple[float, float, float]:
    """CPU seconds until it is idle, RSS in MB, and CPU milliseconds per request of /metrics (0 without listener)."""
    with tempfile.TemporaryDirectory() as folder:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port: int = free.getsockname()[1]
        config = Path(folder, "config.yaml")
        http = {"http": {"listen": f"127.0.0.1:{port}"}} if listens else {}
        config.write_text(json.dumps({"channels": {"console": {}}, "models": [{"name": "d", "use": "demo"}], **http}))
        process = subprocess.Popen(
            [sys.executable, "-m", "bot", "run", "--config", str(config), "--data-dir", f"{folder}/data"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            _until_idle(process.pid)
            cpu, size = _cpu(process.pid), _rss(process.pid)
            for _ in range(SCRAPES if listens else 0):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10).read()
            return cpu, size, 1000 * (_cpu(process.pid) - cpu) / SCRAPES
        finally:
            process.terminate()
            process.communicate()


def _until_idle(pid: int) -> None:
    """Wait until it uses almost no CPU for two seconds."""
    before = -1.0
    while (now := _cpu(pid)) - before > 0.03 or now < 0.5:
        before = now
        time.sleep(2)


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _rss(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def event(format_name: str) -> float:
    """CPU microseconds of one log event."""
    log = logging.getLogger("bot.bench")
    about: dict[str, Any] = {"event": "run_ended", "account": "telegram", "conversation": "telegram:-1001234"}
    about |= {"run": "4f1c" * 8, "person": "telegram:42", "model": "main", "state": "success"}
    about |= {"tokens": 1234, "seconds": 3.2, "first_words": 1.2}
    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "w") as nowhere:
        stderr, sys.stderr = sys.stderr, nowhere
        try:
            redact = Redactor(SECRETS)
            logs.configure("info", format_name, redact)  # type: ignore[arg-type]  # one of the two formats
            logs.keep(Path(folder), format_name, redact)  # type: ignore[arg-type]
            began = time.process_time()
            for number in range(EVENTS):
                log.info("run %s success; %.1f s, %d model calls, %s", about["run"], 3.2, number, "42", extra=about)
            return 1e6 * (time.process_time() - began) / EVENTS
        finally:
            sys.stderr = stderr
            for handler in logging.getLogger().handlers[:]:
                logging.getLogger().removeHandler(handler)
                handler.close()


def counted() -> float:
    """CPU microseconds of one observation of a histogram."""
    waits = Durations()
    began = time.process_time()
    for number in range(EVENTS):
        waits.add(number % 12)
    return 1e6 * (time.process_time() - began) / EVENTS


def main() -> None:
    """Print all figures."""
    seconds, size = imported()
    print(f"modules of the listener, on top of a gateway's: {seconds:.2f} s of CPU, {size:.1f} MB")
    for listens in (False, True):
        found = [idle(listens=listens) for _ in range(RUNS)]
        cpu, rss, scrape = (median(figures) for figures in zip(*found, strict=True))
        print(f"http.listen {'set' if listens else 'not set'}: {cpu:.2f} s of CPU until idle, RSS {rss:.1f} MB", end="")
        print(f", {scrape:.1f} ms of CPU for one look at /metrics" if listens else "")
    print(f"one event of the log: text {event('text'):.0f} µs, json {event('json'):.0f} µs")
    print(f"one figure of a histogram: {counted():.2f} µs")


if __name__ == "__main__":
    main()
