"""What an operator can do where containers do not work, by what the daemon says."""

from __future__ import annotations

START = "start the daemon (systemctl start docker), or set sandbox.docker.host"
PERMISSION = (
    "add the user that Antler runs as to the group docker (usermod -aG docker USER) and restart Antler; note that "
    "this group is as good as root on this machine"
)
HOST_PATHS = (
    "where Antler itself runs in a container, or the daemon on another machine, sandbox.docker.host_paths tells where "
    "the daemon finds Antler's folders"
)
USER_NAMESPACES = (
    "this daemon maps users (rootless or userns-remap), so that commands could not write the thread's files: use an "
    "ordinary daemon, or `sandbox.use: bubblewrap`"
)
IMAGE = "sandbox.docker.image should name an image with /bin/sh and /bin/sleep"
REPLICAS = "raise sandbox.docker.replicas, or let fewer agents run at a time"

_HINTS = (
    ("docker-init", "the daemon has no init process: install tini (Debian: apt-get install tini)"),
    ("/bin/sh", IMAGE),
    ("/bin/sleep", IMAGE),
)


def hint(output: str) -> str:
    """Find the advice that fits what the daemon, or a program of it, printed; "" for an unknown message."""
    return next((text for fragment, text in _HINTS if fragment in output), "")
