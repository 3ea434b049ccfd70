"""The two shell programs that run inside a container: one around each command, one that ends leftovers.

They need only /bin/sh and the init process of the image, and start no process where there might be a fork bomb: they
use only builtins of every POSIX shell. shells.py starts them and reads their reports on standard error, a line each:
`begun`; `ended CODE KILLED_BEFORE KILLED_AFTER LEFT`; `clean KILLED`. KILLED counts the container's processes that the
kernel killed because memory was used up; LEFT is 0 if nothing of the command is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sandbox.policy import Limits

INIT = "/sbin/docker-init"
"""Docker's init process (tini). With `-s` it adopts orphans of a command's processes."""

_COMMON = r"""
oom() {
  killed=0
  while read -r name value; do
    [ "$name" = oom_kill ] && killed=$value
  done < "$oom_file"
}
for oom_file in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control /dev/null; do
  [ -r "$oom_file" ] && break
done

# All processes as "pid:parent". A dead one counts while threads of it live. Names cannot break a line of this file.
look() {
  all=
  for folder in /proc/[0-9]*; do
    state= parent=
    while read -r key value rest; do
      case $key in State:) state=$value ;; PPid:) parent=$value; break ;; esac
    done < "$folder/status"
    if [ "$state" = Z ] || [ "$state" = X ]; then
      set -- "$folder"/task/*
      [ $# -gt 1 ] || continue
    fi
    [ -n "$parent" ] && all="$all ${folder#/proc/}:$parent"
  done
}

# $1: pids, with a space at both ends. Sets `tree` to them and all their descendants.
grow() {
  tree=$1 grown=1
  while [ $grown = 1 ]; do
    grown=0
    for pair in $all; do
      case $tree in *" ${pair%:*} "*) continue ;; esac
      case $tree in *" ${pair#*:} "*) tree="$tree${pair%:*} " grown=1 ;; esac
    done
  done
}

# Kills the processes that `victims` names until it names none. All are stopped before the first is killed, so that
# none can start another. Fails if some still exist at the end: they hang in the kernel.
extinguish() {
  round=0
  while [ $round -lt 200 ]; do
    stopped=
    victims
    while [ "$names" != "$stopped" ]; do
      kill -STOP $names
      stopped=$names
      victims
    done
    [ -n "$names" ] || return 0
    kill -KILL $names
    round=$((round + 1))
    [ $round -gt 20 ] && sleep 0.01
  done
  return 1
}
"""

_RUN = r"""
root=$PPID
IFS= read -r order || exit 0
exec 3>&2 4<&0 2>/dev/null
newline='
'
eval "$order"
echo begun >&3
oom
before=$killed
trap 'told=1' TERM
# Ends the command when the gateway writes to this pipe, closes it or dies.
{ read -r end; kill -TERM $$; } <&4 3>&- >/dev/null &
{
  @limits
  [ -n "$full" ] && ulimit -f 0
  trap - TERM
  if [ -x /bin/bash ]; then exec /bin/bash --noprofile --norc -c "$command"; fi
  exec /bin/sh -c "$command"
} </dev/null 2>&1 3>&- 4<&- &
wait $!
code=$?
victims() {
  look
  grow " $root "
  names=
  for pid in $tree; do
    [ $pid = $root ] || [ $pid = $$ ] || names="$names $pid"
  done
}
extinguish
left=$?
oom
echo ended $code $before $killed $left >&3
"""

_SWEEP = r"""
exec 3>&2 2>/dev/null
kept=" $* "
victims() {
  look
  roots=" $$ "
  for pair in $all; do
    [ "${pair#*:}" = 0 ] || continue
    read -r first < "/proc/${pair%:*}/cmdline"
    case $kept in *" ${first##*: } "*) roots="$roots${pair%:*} " ;; esac
  done
  grow "$roots"
  names=
  for pair in $all; do
    case $tree in *" ${pair%:*} "*) continue ;; esac
    # What keeps the container belongs to another user.
    kill -0 ${pair%:*} && names="$names ${pair%:*}"
  done
}
extinguish || exit 1
oom
echo clean $killed >&3
"""


def wrapper(mark: str, limits: Limits) -> tuple[str, ...]:
    """The program that runs one command, given by `order`. A further line, or the end of input, ends all its processes.

    mark: identifies it to the sweeper. limits: of each of the command's processes.
    """
    blocks = limits.file_size // 512  # the unit of ulimit in any sh; bash under its own name uses another one
    bounds = f"ulimit -c 0; ulimit -t {limits.cpu_seconds}; ulimit -n {limits.open_files}; ulimit -f {blocks}"
    return (INIT, "-s", "--", "/bin/sh", "-c", f": {mark}\n{_COMMON}{_RUN.replace('@limits', bounds)}")


def order(command: str, *, full: bool) -> bytes:
    """The wrapper's first line: assignments for its shell. full: files can be deleted but not grow."""
    quoted = command.replace("'", "'\\''").replace("\n", "'\"$newline\"'")
    return f"full={'1' if full else ''} command='{quoted}'\n".encode()


def sweeper(kept: Iterable[str]) -> tuple[str, ...]:
    """The program that ends every process of the commands' user, orphans included, except wrappers with these marks."""
    return ("/bin/sh", "-c", f"{_COMMON}{_SWEEP}", "sweeper", *kept)
