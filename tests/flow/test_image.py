"""The image: built from a Debian that debootstrap makes, run without privileges, answering and running commands.

The container has a read-only root, no capabilities and no way to new ones; only `--network host` differs from what
compose.yaml does, since the simulators listen on this machine's loopback.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from sandbox.launcher.linux import landlock_abi
from sandbox.local.landlock import NEEDED_ABI
from tests.flow.gateway import World
from tests.flow.sandboxed import bash
from tests.parts import missing
from tests.sandbox.docker.daemon import Daemon, the_daemon
from tests.simulators.process import REPO_ROOT
from tests.simulators.telegram.seen import ALICE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

pytestmark = [pytest.mark.image, pytest.mark.timeout(1800)]  # a first build makes Debian and fetches all packages

BASE, IMAGE = "antler-test-base:1", "antler-test-image:1"
SUITE = "bookworm"
PACKAGES = "ca-certificates,python3,python3-venv,tini,bubblewrap"
EXTRAS = "[scale,tracing]"
"""What the Dockerfile installs besides."""
WHEELS = "/wheels"
KEPT = Path(tempfile.gettempdir()) / f"antler-image-{os.getuid()}"
"""The root file system and the wheels, which later runs on this machine use again."""
BUILD_SECONDS = 600.0
UNPRIVILEGED = ("--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")
NAMESPACES = ("--security-opt", "seccomp=unconfined", "--security-opt", "systempaths=unconfined")
"""What compose.yaml lets the sandbox server do."""
TOKEN = "a-token-for-this-test-only"
PORT = 8790


def ran(*command: str | Path, more: Mapping[str, str] | None = None) -> str:
    """The output of a program that succeeds. more: variables besides this process's own."""
    environment = os.environ | (more or {})
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=BUILD_SECONDS, text=True, env=environment
    )
    assert done.returncode == 0, f"{command[0]} ended with {done.returncode}:\n{done.stdout[-4000:]}"
    return done.stdout


def root_file_system() -> Path:
    """A tar file of a small Debian with Python; made once."""
    made = KEPT / f"{SUITE}-{platform.machine()}-{digest(PACKAGES)}.tar"
    if not made.exists():
        KEPT.mkdir(mode=0o700, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=KEPT) as folder:
            root = Path(folder, "root")
            ran("debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, root)
            shutil.rmtree(root / "var/cache/apt/archives")
            ran("tar", "--one-file-system", "-C", root, "-cf", Path(folder, "tar"), ".")
            Path(folder, "tar").rename(made)
    return made


def wheels() -> Path:
    """The packages that the Dockerfile installs: inside of a build this machine's way to a registry is not known."""
    constraints = REPO_ROOT / "constraints.txt"
    wanted = "".join((REPO_ROOT / name).read_text() for name in ("constraints.txt", "pyproject.toml", "Dockerfile"))
    made = KEPT / f"wheels-{digest(wanted)}"
    if not made.exists():
        KEPT.mkdir(mode=0o700, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=KEPT) as folder:
            download = (sys.executable, "-m", "pip", "download", "-q", "-c", constraints, "-d", Path(folder, "all"))
            ran(*download, f"{REPO_ROOT}{EXTRAS}", "pip", "hatchling")
            Path(folder, "all").rename(made)
    return made


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def import_base(docker: Docker, folder: Path) -> None:
    """The base image: Debian, and a pip that knows nothing but the wheels.

    To compile them takes longer than it saves.
    """
    more = folder / "more"
    (more / "etc").mkdir(parents=True)
    pip = f"[global]\nno-index = true\nfind-links = {WHEELS}\n[install]\nno-compile = true\n"
    (more / "etc/pip.conf").write_text(pip)
    shutil.copytree(wheels(), more / WHEELS.lstrip("/"))
    tar = shutil.copy(root_file_system(), folder / "base.tar")
    ran("tar", "--owner=0", "--group=0", "-C", more, "-rf", tar, "etc/pip.conf", WHEELS.lstrip("/"))
    docker.does("import", str(tar), BASE)


class Docker:
    """The program `docker` on the tests' own daemon."""

    def __init__(self, daemon: Daemon) -> None:
        self.environment = {"DOCKER_HOST": daemon.host, "DOCKER_BUILDKIT": "0"}

    def does(self, *arguments: str) -> str:
        return ran("docker", *arguments, more=self.environment)


@pytest.fixture(scope="module")
def docker(tmp_path_factory: pytest.TempPathFactory) -> Docker:
    """With the image in it."""
    if shutil.which("debootstrap", path="/usr/sbin:/usr/bin") is None:
        missing("debootstrap is not installed")
    made = Docker(the_daemon())
    import_base(made, tmp_path_factory.mktemp("base"))
    arguments = {"BASE": BASE, "PACKAGES": "", "RUNTIME": "no"}
    chosen = [text for name, value in arguments.items() for text in ("--build-arg", f"{name}={value}")]
    made.does("build", "--network", "none", "-t", IMAGE, *chosen, str(REPO_ROOT))
    return made


class Container(World):
    """The gateway as the image runs it. more: arguments of `docker run`."""

    docker: Docker
    more: tuple[str, ...] = ()
    name = f"antler-test-{os.getpid()}"

    async def _launch(self, environment: dict[str, str]) -> asyncio.subprocess.Process:
        self.write_config()
        (self.folder / "log.txt").touch()
        passed = {"MODEL_KEY": self.model.api_key, "BOT_TOKEN": self.telegram.token}
        self.process = await asyncio.create_subprocess_exec(
            *("docker", "run", "--rm", "--name", self.name, "--network", "host", *UNPRIVILEGED, *self.more),
            *("--health-interval", "2s", "-v", f"{self.config_file}:/config/config.yaml:ro"),
            *(text for name in passed for text in ("-e", name)),
            IMAGE,
            env=os.environ | self.docker.environment | passed,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        assert self.process.stdout is not None
        self._logging = asyncio.create_task(self._keep_log(self.process.stdout), name="gateway log")
        return self.process

    async def does(self, *arguments: str) -> str:
        return await asyncio.to_thread(self.docker.does, *arguments)

    async def __aenter__(self) -> World:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        print(self.log)
        assert await self.end() == 0


def contained(world: World, docker: Docker, *more: str) -> Container:
    made = Container(world.telegram, world.model, world.folder)
    made.docker, made.more = docker, more
    return made


async def test_a_container_without_privileges_answers_and_runs_commands(world: World, docker: Docker) -> None:
    if landlock_abi() < NEEDED_ABI:
        pytest.skip("this kernel has no landlock of that version: the sandbox server is for it")
    gateway = contained(world, docker)
    async with gateway:
        await world.telegram.user_says(bash("id -u; echo $((6 * 7)) > it; cat it; ls /data"), user=ALICE)
        answer = await world.telegram.wait_for_text(ALICE, "Tool result")
        assert "10001\n42\n" in answer.text
        assert "antler.db" not in answer.text
        await healthy(gateway)
        assert "antler" in await gateway.does("exec", gateway.name, "antler", "status")


async def healthy(gateway: Container) -> None:
    """Until the image's own check says so."""
    async with asyncio.timeout(40):
        while (
            found := await gateway.does("inspect", "--format", "{{.State.Health.Status}}", gateway.name)
        ) != "healthy\n":
            assert found == "starting\n"
            await asyncio.sleep(0.5)


async def test_a_sandbox_server_in_a_container_of_its_own_runs_them(world: World, docker: Docker) -> None:
    async with sandbox_server(docker):
        remote = {"USE": "remote", "REMOTE__URL": f"http://127.0.0.1:{PORT}", "REMOTE__TOKEN": TOKEN}
        chosen = [text for name, value in remote.items() for text in ("-e", f"ANTLER__SANDBOX__{name}={value}")]
        async with contained(world, docker, *chosen):
            await world.telegram.user_says(bash("id -un; pwd; echo $((6 * 7)); ls /data /config"), user=ALICE)
            answer = await world.telegram.wait_for_text(ALICE, "Tool result")
            assert "sandbox\n/mnt/user-data/workspace\n42\n" in answer.text
            assert "sandbox.yaml" not in answer.text


@asynccontextmanager
async def sandbox_server(docker: Docker) -> AsyncIterator[None]:
    """As the service `sandbox` of compose.yaml, on this machine's loopback."""
    service = yaml.safe_load((REPO_ROOT / "compose.yaml").read_text())["services"]["sandbox"]
    settings = {
        "token": TOKEN,
        "data_dir": "/data",
        "listen": {"port": PORT},
        "sandbox": {"use": "bubblewrap"},
    }
    name = f"antler-test-sandbox-{os.getpid()}"
    entry, *rest = service["entrypoint"]
    arguments = ("--name", name, "--network", "host", *UNPRIVILEGED, *NAMESPACES, "--entrypoint", entry)
    given = ("-e", f"SETTINGS={yaml.safe_dump(settings)}")
    command = [each.replace("$$", "$") for each in service["command"]]
    run = ("run", "--rm", "-d", *arguments, *given, IMAGE, *rest, *command)
    await asyncio.to_thread(docker.does, *run)
    try:
        async with asyncio.timeout(40):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", PORT)
                    break
                except ConnectionRefusedError:
                    await asyncio.sleep(0.2)
        writer.close()
        yield
    finally:
        print(await asyncio.to_thread(docker.does, "logs", name))
        await asyncio.to_thread(docker.does, "rm", "-f", name)
