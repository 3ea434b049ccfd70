"""What an operator can do where bwrap does not work, by what bwrap says."""

from __future__ import annotations

MISSING = "apt-get install bubblewrap (or your system's package of that name)"
OLD = "bubblewrap 0.5 or newer is needed"

_USER_NAMESPACES = (
    "user namespaces are switched off for ordinary users; on Debian and Ubuntu: "
    "sysctl -w kernel.unprivileged_userns_clone=1 user.max_user_namespaces=15000"
)
_APPARMOR = (
    "AppArmor keeps user namespaces from bwrap (Ubuntu 23.10 and newer): install the profile bwrap-userns-restrict of "
    "the package apparmor-profiles, or give /usr/bin/bwrap a profile with `userns,`"
)
_CONTAINER = (
    "inside a container /proc is masked and namespaces are forbidden: use `sandbox.use: landlock` there, which needs "
    "no privileges, rather than a privileged container"
)

_HINTS = (
    ("setting up uid map", _APPARMOR),
    ("RTM_NEWADDR", _APPARMOR),
    ("mount proc on", _CONTAINER),
    ("Failed to make / slave", _CONTAINER),
    ("pivot_root", _CONTAINER),
    ("No permissions to create", _USER_NAMESPACES),
    ("Creating new namespace failed", _USER_NAMESPACES),
    ("max_user_namespaces", _USER_NAMESPACES),
    ("Unknown option", OLD),
    ("unshare: Operation not permitted", _CONTAINER),
)


def hint(output: str) -> str:
    """Find the advice that fits what bwrap, or the launcher before it, printed; "" for an unknown message."""
    return next((text for fragment, text in _HINTS if fragment in output), "")
