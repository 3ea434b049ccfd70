"""The archive of a backup: a tar, compressed with zstd or gzip, whose last member lists the others with their hashes.

Reading trusts nothing: names that lead out of the folder are refused, links are created after everything else is
written, and content that disagrees with the list is rejected.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import stat
import tarfile
import tempfile
import zlib
from contextlib import contextmanager
from io import BytesIO
from operator import attrgetter
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, cast

from pydantic import BaseModel, ConfigDict, ValidationError

from bot.backup.databases import Databases

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bot.backup.databases import Tell

FORMAT = 1
MANIFEST = "manifest.json"
MOST_MANIFEST = 512 * 1024 * 1024
CHUNK = 1 << 20
IN_MEMORY = 16 << 20
"""Bytes of a file held in memory while it is copied; a larger file goes through a temporary one."""
ENDINGS = (".tar.zst", ".tar.gz", ".tgz")
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
GZIP_MAGIC = b"\x1f\x8b"


class BadArchive(Exception):
    """An archive is unusable; the text says what is wrong with it."""


class Entry(BaseModel):
    """A file, or a link. path: as `_shown` returns it. size: bytes. link: its target, None for a file."""

    model_config = ConfigDict(frozen=True)

    path: str
    size: int = 0
    sha256: str = ""
    link: str | None = None


class Manifest(BaseModel):
    """Describes a backup. version: of the program that made it. data_dir: its original place. made_at: ISO 8601.
    left_out: what was excluded on request, or could not be read."""

    model_config = ConfigDict(frozen=True)

    format: int = FORMAT
    version: str
    made_at: str
    data_dir: str
    databases: Databases
    left_out: tuple[str, ...] = ()
    entries: tuple[Entry, ...] = ()


class Writer:
    """An archive being written. tell: called with each file and its bytes."""

    def __init__(self, tar: tarfile.TarFile, tell: Tell) -> None:
        self._tar = tar
        self._tell = tell
        self.entries: list[Entry] = []
        self.left_out: list[str] = []

    def add_tree(self, folder: Path, name: str, skip: frozenset[str] = frozenset()) -> None:
        """Add a folder with its whole content. skip: names directly in it that are left out."""
        try:
            found = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except FileNotFoundError:  # deleted since it was listed
            return
        except OSError as error:
            self.left_out.append(f"{name}: {error.strerror}")
            return
        self._tar.addfile(_anonymous(self._tar.gettarinfo(str(folder), name)))
        for entry in found:
            if entry.name in skip:
                continue
            inner = f"{name}/{entry.name}"
            if entry.is_symlink():
                self._add_link(Path(entry.path), inner)
            elif entry.is_dir():
                self.add_tree(Path(entry.path), inner)
            elif entry.is_file():
                self.add_file(Path(entry.path), inner)

    def add_file(self, path: Path, name: str) -> None:
        """Add a file as it is now; it is copied first, so that the length of one being written is known."""
        try:
            source = os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
        except FileNotFoundError:
            return
        except OSError as error:
            self.left_out.append(f"{name}: {error.strerror}")
            return
        with source, tempfile.SpooledTemporaryFile(IN_MEMORY) as copy:
            info = self._tar.gettarinfo(arcname=name, fileobj=source)
            digest, info.size = hashlib.sha256(), 0
            while data := source.read(CHUNK):
                digest.update(data)
                copy.write(data)
                info.size += len(data)
            copy.seek(0)
            self._tar.addfile(_anonymous(info), cast("IO[bytes]", copy))
        self.entries.append(Entry(path=_shown(name), size=info.size, sha256=digest.hexdigest()))
        self._tell(name, info.size)

    def _add_link(self, path: Path, name: str) -> None:
        try:
            target = os.readlink(path)
        except OSError:
            return
        info = tarfile.TarInfo(name)
        info.type, info.linkname = tarfile.SYMTYPE, target
        self._tar.addfile(info)
        self.entries.append(Entry(path=_shown(name), link=_shown(target)))

    def finish(self, manifest: Manifest) -> Manifest:
        """Write the manifest with the entries of everything added; returns it."""
        whole = manifest.model_copy(update={"entries": tuple(self.entries), "left_out": tuple(self.left_out)})
        data = whole.model_dump_json(indent=1).encode()
        info = tarfile.TarInfo(MANIFEST)
        info.size, info.mode = len(data), 0o600
        self._tar.addfile(info, BytesIO(data))
        return whole


def _anonymous(info: tarfile.TarInfo) -> tarfile.TarInfo:
    """Leave out the names of owners, which belong to this machine: their numbers are enough."""
    info.uname = info.gname = ""
    return info


@contextmanager
def writing(path: Path, tell: Tell) -> Iterator[Writer]:
    """A new archive, readable by its owner alone, that appears under its path when it is complete. Raises OSError;
    BadArchive for an existing path, and for a name that implies no format."""
    if not path.name.endswith(ENDINGS):
        raise BadArchive(f"{path}: the name must end in {' or '.join(ENDINGS[:2])}")
    if path.exists():
        raise BadArchive(f"{path} already exists: choose another name")
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with (
            os.fdopen(descriptor, "wb") as file,
            _compressed(file, path.name) as stream,
            # dereference: a file with two names is written twice, so that each is complete by itself.
            tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT, dereference=True) as tar,
        ):
            yield Writer(tar, tell)
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.rename(path)
    finally:
        part.unlink(missing_ok=True)


def _compressed(file: IO[bytes], name: str) -> IO[bytes]:
    if not name.endswith(".zst"):
        return cast("IO[bytes]", gzip.GzipFile(fileobj=file, mode="wb", filename=""))
    import zstandard  # rarely used

    return cast(
        "IO[bytes]", zstandard.ZstdCompressor(threads=-1, write_checksum=True).stream_writer(file, closefd=False)
    )


def extract(path: Path, folder: Path, tell: Tell) -> Manifest:
    """Unpack an archive into an empty folder and check it; unpacked files stay there even when it is refused.

    Raises BadArchive, OSError.
    """
    links: list[tuple[str, str]] = []
    modes: list[tuple[Path, tarfile.TarInfo]] = []
    found: list[Entry] = []
    try:
        with (
            path.open("rb") as file,
            _decompressed(file, path) as stream,
            tarfile.open(fileobj=stream, mode="r|") as tar,
        ):
            for member in tar:
                if member.name == MANIFEST:
                    manifest = _manifest(tar, member)
                    break
                entry = _unpack(tar, member, folder, modes)
                found += [entry] if entry is not None else []
                links += [(member.name, member.linkname)] if member.issym() else []
                tell(member.name, member.size)
            else:
                raise BadArchive(f"{path} has no manifest: it is not an Antler backup, or the copy was cut off")
            while stream.read(CHUNK):  # a checksum of the whole is at the end
                pass
    except (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error, ValueError) as error:
        raise BadArchive(f"{path} cannot be read: {error}") from error
    by_path = attrgetter("path")
    if sorted(found, key=by_path) != sorted(manifest.entries, key=by_path):
        raise BadArchive(f"{path} does not match its manifest ({_difference(found, manifest)}): do not use it")
    inside = folder.resolve()
    for name, target in links:
        place = folder / name
        if not place.parent.resolve().is_relative_to(inside):
            raise BadArchive(f"{name!r} leads out of the folder: this is not an Antler backup")
        os.symlink(target, place)
    for place, info in reversed(modes):  # a folder's mode may forbid writing to it
        _set_owner_and_mode(place, info)
    return manifest


@contextmanager
def _decompressed(file: IO[bytes], path: Path) -> Iterator[IO[bytes]]:
    magic = file.read(4)
    file.seek(0)
    if magic.startswith(GZIP_MAGIC):
        with gzip.GzipFile(fileobj=file) as stream:
            yield cast("IO[bytes]", stream)
    elif magic == ZSTD_MAGIC:
        import zstandard  # rarely used

        try:
            with zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True) as reader:
                yield cast("IO[bytes]", reader)
        except zstandard.ZstdError as error:
            raise BadArchive(f"{path} cannot be read: {error}") from error
    else:
        raise BadArchive(f"{path} is neither a .tar.zst nor a .tar.gz")


def _manifest(tar: tarfile.TarFile, member: tarfile.TarInfo) -> Manifest:
    file = tar.extractfile(member)
    if file is None or member.size > MOST_MANIFEST:
        raise BadArchive("the manifest is not a file")
    try:
        manifest = Manifest.model_validate_json(file.read())
    except ValidationError as error:
        raise BadArchive(
            f"the manifest has an unknown form ({error.error_count()} problems): a newer Antler made it"
        ) from error
    if manifest.format != FORMAT:
        raise BadArchive(f"the backup has format {manifest.format}: use the Antler that made it, {manifest.version}")
    return manifest


def _unpack(
    tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path, modes: list[tuple[Path, tarfile.TarInfo]]
) -> Entry | None:
    """Unpack a member and return its entry, None for a folder. A link is not created yet."""
    name = PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts or not name.parts or "\0" in member.name:
        raise BadArchive(
            f"{member.name!r} leads out of the folder: this is not an Antler backup, and nothing was restored"
        )
    place = folder / name
    if member.isdir():
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        modes.append((place, member))
        return None
    if member.issym():
        return Entry(path=_shown(member.name), link=_shown(member.linkname))
    source = tar.extractfile(member) if member.isreg() else None
    if source is None:
        raise BadArchive(f"{member.name!r} is neither a file nor a folder: this is not an Antler backup")
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    digest = hashlib.sha256()
    with os.fdopen(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as target:
        while data := source.read(CHUNK):
            digest.update(data)
            target.write(data)
    modes.append((place, member))
    return Entry(path=_shown(member.name), size=member.size, sha256=digest.hexdigest())


def _set_owner_and_mode(place: Path, info: tarfile.TarInfo) -> None:
    if os.geteuid() == 0:
        os.chown(place, info.uid, info.gid)
    place.chmod(stat.S_IMODE(info.mode) & 0o777)


def _shown(name: str) -> str:
    """A name in a form that JSON accepts; bytes that are not UTF-8 are escaped."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _difference(found: list[Entry], manifest: Manifest) -> str:
    wanted, there = {each.path: each for each in manifest.entries}, {each.path: each for each in found}
    for path in sorted(wanted.keys() | there.keys()):
        if path not in there:
            return f"{path} is missing"
        if wanted.get(path) != there[path]:
            return f"{path} is not in the manifest" if path not in wanted else f"{path} has changed"
    return "an entry occurs twice"
