"""The shell programs inside a container whose image has an API: what scripts.py has for a plain one, where nothing but
commands runs. Here the image's own programs run too, as the commands' user, and one of them starts the commands.

http_shells.py starts them. They report as those of scripts.py do, and `own` beside that.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from sandbox.docker.scripts import COMMON, INIT, RUN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sandbox.policy import Limits

BEAT = "beat\n"
_PATIENCE_SECONDS = 20

_BY_BEATS = f"""
heard() {{ while IFS= read -r -t {_PATIENCE_SECONDS} end && [ "$end" = {BEAT.strip()} ]; do :; done; }}
bound() {{ ulimit -c 0; ulimit -t @cpu; ulimit -n @files; ulimit -f @blocks; }}
"""

# A process's begin, of proc(5): with its number it is unique.
_BEGAN = r"""
began() {
  line=
  read -r line < "/proc/$1/stat"
  set -- ${line##*) }
  begin=${20}
}
"""

_LOOK_AT_OWN = r"""
exec 3>&2 2>/dev/null
look
for pair in $all; do
  [ ${pair#*:} = 0 ] && [ ${pair%:*} != 1 ] && continue
  began ${pair%:*}
  [ -n "$begin" ] && own="$own ${pair%:*}.$begin"
done
echo own$own >&3
"""

_SWEEP = r"""
exec 3>&2 2>/dev/null
own=" $1 " server=$2
shift 2
kept=" $* "
is_own() {
  case $own in *" $1."*) ;; *) return 1 ;; esac
  began $1
  case $own in *" $1.$begin "*) return 0 ;; esac
  return 1
}
# Spared: whom the daemon started, the image's own programs with what they start, the wrappers that are kept. What the
# API started is a command's, and so is what belongs to nobody any more.
victims() {
  look
  everything=$all all= roots=" $$ " spared=
  for pair in $everything; do
    pid=${pair%:*} parent=${pair#*:}
    if is_own $pid; then
      spared="$spared $pid "
      [ $pid = 1 ] || [ $pid = $server ] || roots="$roots$pid "
    elif [ $parent = 0 ]; then
      roots="$roots$pid "
    elif [ $parent != $server ] && [ $parent != 1 ]; then
      all="$all $pair"
    elif [ $parent = $server ]; then
      first=
      read -r first < "/proc/$pid/cmdline"
      case $kept in *" ${first##*: } "*) roots="$roots$pid " ;; esac
    fi
  done
  grow "$roots"
  names=
  for pair in $everything; do
    case $tree$spared in *" ${pair%:*} "*) continue ;; esac
    names="$names ${pair%:*}"
  done
}
# If the API itself was started anew, nobody knows what is a command's.
look
is_own $server || exit 1
extinguish || exit 1
oom
echo clean $killed >&3
"""


def wrapper(mark: str, limits: Limits) -> str:
    """As scripts.wrapper has it, as a line for the API's shell; it ends its command too when no BEAT comes for a while.

    limits: of each of the command's processes, while the image's own have none.
    """
    bounds = _BY_BEATS
    values = {"cpu": limits.cpu_seconds, "files": limits.open_files, "blocks": limits.file_size // 1024}
    for name, value in values.items():
        bounds = bounds.replace(f"@{name}", str(value))
    return shlex.join((INIT, "-s", "--", "/bin/bash", "-c", f": {mark}\n{COMMON}{bounds}{RUN}"))


def in_environment(line: str, variables: Mapping[str, str], *, secret: str) -> str:
    """Replace the API's shell by a program. What the image has in its search path comes after ours. secret: a variable
    that is none of the command's business."""
    path = f'export PATH={shlex.quote(variables["PATH"])}:"$PATH"'
    return f"{path}; unset {secret}; exec {line}"


def look_at_own() -> tuple[str, ...]:
    """Reports all processes but those that the daemon started, as words for `sweeper`."""
    return ("/bin/sh", "-c", f"{COMMON}{_BEGAN}{_LOOK_AT_OWN}", "look")


def sweeper(own: str, server: str, kept: Iterable[str]) -> tuple[str, ...]:
    """Ends every process that is not the image's own, but wrappers with these marks. For root, whom no command can end.

    own: as `look_at_own` reported them before the first command. server: the process that runs the API.
    """
    return ("/bin/sh", "-c", f"{COMMON}{_BEGAN}{_SWEEP}", "sweeper", own, server, *kept)
