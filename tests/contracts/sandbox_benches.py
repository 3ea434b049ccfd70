"""The providers that the sandbox contract runs on: each has its line here."""

from __future__ import annotations

from tests.contracts.bench_bubblewrap import BUBBLEWRAP
from tests.contracts.bench_docker import ALL_IN_ONE, DOCKER
from tests.contracts.bench_host import HOST
from tests.contracts.bench_local_files import LOCAL_FILES
from tests.contracts.bench_remote import REMOTE_BUBBLEWRAP, REMOTE_MEMORY
from tests.contracts.sandbox_bench import SETTINGS, Ability, SandboxBench
from tests.simulators.sandbox.provider import MemoryProvider

MEMORY = SandboxBench(
    lambda folder_of, skills: MemoryProvider(SETTINGS, skills=skills),
    lacks={
        Ability.SHELL: "its commands are interpreted in this process",
        Ability.HOST_FOLDERS: "its files are in memory",
    },
)

SANDBOX_BENCHES: dict[str, SandboxBench] = {
    "memory": MEMORY,
    "local files": LOCAL_FILES,
    "bubblewrap": BUBBLEWRAP,
    "host": HOST,
    "remote, memory behind it": REMOTE_MEMORY,
    "remote, bubblewrap behind it": REMOTE_BUBBLEWRAP,
    "docker": DOCKER,
    "docker, an all-in-one image": ALL_IN_ONE,
}
WITH_FILES_OF_THEIR_OWN = [name for name, bench in SANDBOX_BENCHES.items() if Ability.OWN_FILES not in bench.lacks]
