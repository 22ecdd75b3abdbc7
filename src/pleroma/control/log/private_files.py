"""Files and folders that nobody else reads: the log has the digests of all tokens, and who may do what.

Files are opened without following a symbolic link, for one that somebody planted would lead what we write elsewhere.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from pleroma.errors import SetupError

PRIVATE_FILE_MODE = 0o600
PRIVATE_FOLDER_MODE = 0o700
STATE_FILE_PATTERNS = ("control.sqlite*", "admin.token", ".admin.token.*", "*.key", ".*.key.*", "wiring.json")
"""What a controller keeps in its folder. Other files there are somebody's own."""
_OTHERS = 0o077
_OTHERS_WRITE = 0o022
_ROOT = 0
_OTHERS_OF_ROOT = 0o037
"""What nobody but root may do with a key that root hands to a group of services, as Debian's `ssl-cert` is one."""


def open_private(path: Path) -> int:
    """A descriptor of a file, made if it is missing, for reading and writing; only its owner can open it afterwards."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE_FILE_MODE)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise SetupError("is a symbolic link; put the file itself there", field=str(path)) from None
    try:
        _tighten(descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def make_private(folder: Path) -> list[str]:
    """Make the folder if it is missing, and keep others out of it and its files. Names what was open to them.

    A folder in which others could write may have been prepared by them, so it is refused, unless it is empty.
    """
    folder.mkdir(mode=PRIVATE_FOLDER_MODE, parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for fault in _foreign(folder, descriptor):
            raise SetupError(fault, field=str(folder))
        tightened = [str(folder)] if _tighten(descriptor) else []
        if tightened and (late := list(_foreign(folder, descriptor))):
            raise SetupError(late[0], field=str(folder))
        for name in _state_files(descriptor):
            if not os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode & _OTHERS:
                continue  # to open and close a file would drop the locks that SQLite has on it in this process
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=descriptor)
            try:
                if _tighten(file):
                    tightened.append(name)
            finally:
                os.close(file)
        return tightened
    finally:
        os.close(descriptor)


def exposures(folder: Path) -> list[str]:
    """In a line each, what others can read or have their hands in; nothing is changed."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        faults = list(_foreign(folder, descriptor))
        mode = os.fstat(descriptor).st_mode
        if mode & _OTHERS and not mode & _OTHERS_WRITE:
            faults.append(f"{folder} is open to others (mode {stat.S_IMODE(mode):o}); `pleroma up` makes it 700")
        for name in _state_files(descriptor):
            mode = os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode
            if stat.S_ISREG(mode) and mode & _OTHERS:
                faults.append(f"{name} is open to others (mode {stat.S_IMODE(mode):o}); `pleroma up` makes it 600")
        return faults
    finally:
        os.close(descriptor)


def check_key_file(path: Path) -> None:
    """Refuse a private key that other users can read, or that somebody other than this user or root has put there."""
    try:
        found = path.stat()
    except OSError as error:
        raise SetupError(f"the key cannot be read: {error.strerror}", field=str(path)) from None
    if found.st_uid not in (_ROOT, os.geteuid()):
        raise SetupError(f"the key belongs to user {found.st_uid}, and this is user {os.geteuid()}", field=str(path))
    if found.st_mode & (_OTHERS_OF_ROOT if found.st_uid == _ROOT else _OTHERS):
        mode = f"{stat.S_IMODE(found.st_mode):o}"
        raise SetupError(f"others can use this key (mode {mode}): `chmod 600 {path}`", field=str(path), value=mode)


def _foreign(folder: Path, descriptor: int) -> Iterator[str]:
    """Why the folder is not ours alone to write in."""
    found, me = os.fstat(descriptor), os.geteuid()
    if found.st_uid != me:
        yield f"belongs to user {found.st_uid}, and this is user {me}: a controller has a folder of its own"
    elif found.st_mode & _OTHERS_WRITE and os.listdir(descriptor):
        yield f"others can write in it: see that all of it is yours, then `chmod 700 {folder}`"
    for name in _state_files(descriptor):
        file = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
        if not stat.S_ISREG(file.st_mode):
            kind = "a symbolic link" if stat.S_ISLNK(file.st_mode) else "not a file"
            yield f"{name} is {kind}; put the file itself there"
        elif file.st_uid != me:
            yield f"{name} belongs to user {file.st_uid}, and this is user {me}"


def _state_files(folder: int) -> Iterator[str]:
    for name in sorted(os.listdir(folder)):
        if any(fnmatch(name, pattern) for pattern in STATE_FILE_PATTERNS):
            yield name


def _tighten(descriptor: int) -> bool:
    """Take from others what they may do with the file; whether they could do anything."""
    mode = os.fstat(descriptor).st_mode
    if not mode & _OTHERS:
        return False
    os.fchmod(descriptor, stat.S_IMODE(mode) & ~_OTHERS)
    return True
