"""Why a file operation did nothing, inside this package: raised where it is found, a Problem where it is handed out."""

from __future__ import annotations

import errno
import os

from sandbox.base import ProblemCode, SandboxError

_CODES = {
    errno.ENOENT: ProblemCode.NOT_FOUND,
    errno.ENOTDIR: ProblemCode.NOT_DIRECTORY,
    errno.EISDIR: ProblemCode.IS_DIRECTORY,
    errno.ELOOP: ProblemCode.LINK,
    errno.EXDEV: ProblemCode.OUTSIDE,
    errno.ENXIO: ProblemCode.NOT_A_FILE,
    errno.ENODEV: ProblemCode.NOT_A_FILE,
    errno.EACCES: ProblemCode.DENIED,
    errno.EPERM: ProblemCode.DENIED,
    errno.EROFS: ProblemCode.READ_ONLY,
    errno.ENOSPC: ProblemCode.FULL,
    errno.EDQUOT: ProblemCode.FULL,
    errno.EFBIG: ProblemCode.TOO_LARGE,
    errno.ENAMETOOLONG: ProblemCode.BAD_PATH,
    errno.EINVAL: ProblemCode.BAD_PATH,
    errno.EILSEQ: ProblemCode.BAD_PATH,
}


class Refused(Exception):
    """Carries a problem from where it is found to the method that hands it out. The detail has no host path."""

    def __init__(self, code: ProblemCode, detail: str = "") -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail


def translated(error: OSError) -> Refused | SandboxError:
    """What an operating system error means; its file name, a host path, is left out."""
    reason = os.strerror(error.errno).lower() if error.errno else "unknown error"
    code = _CODES.get(error.errno or 0)
    return SandboxError(f"the sandbox's files cannot be used: {reason}") if code is None else Refused(code, reason)
