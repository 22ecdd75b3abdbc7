"""The folder of a controller as one file, made while the controller runs, and put back into an empty folder.

SQLite copies the log in one read transaction: the copy has all that was acknowledged before it began, up to some entry
and nothing behind it, and no writer waits. The keys, the administrator's token and the switches' certificates come
along; the lake does not, nor do files that are not the controller's. A backup is a tar file whose first member tells
what the others have to be.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import shutil
import tarfile
import tempfile
import time
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import IO

import pleroma
from pleroma.control.backup_manifest import BackupManifest, FileDigest
from pleroma.control.log.head_file import HeadFile
from pleroma.control.log.log_end import intact_end
from pleroma.control.log.log_examination import head_path
from pleroma.control.log.private_files import PRIVATE_FILE_MODE, PRIVATE_FOLDER_MODE, open_private
from pleroma.control.log.read_only_file import ReadOnlyFile
from pleroma.control.log.sqlite_file import clear_errors, sync_folder
from pleroma.control.logged_state import LOG_FILE_NAME
from pleroma.errors import ForeignLog, LogDamaged, LogError, SetupError

KEPT_FILE_PATTERNS = ("admin.token", "*.key", "wiring.json", "switch-certificates", "control.sqlite.moved")
"""What is backed up beside the log. A lock and a head file belong to a process, and are made anew."""
_MANIFEST = "manifest.json"
_MAX_MANIFEST_BYTES = 2**20
_PIECE_BYTES = 2**20
_ATTEMPTS = 5


def back_up(folder: Path, target: Path) -> BackupManifest:
    """Write a backup of the folder to a new file that only its owner reads. A controller may run there meanwhile."""
    if target.exists() or target.is_symlink():
        raise SetupError("is there already: a backup does not replace a file", field=str(target))
    with _errors_of(target), tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as beside:
        copy, written = Path(beside, LOG_FILE_NAME), Path(beside, "backup")
        kept = _copied(folder, copy)
        end = intact_end(copy)
        contents = {LOG_FILE_NAME: _digest_of(copy)} | {name: _digest(data) for name, data in kept.items()}
        made = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        manifest = BackupManifest(pleroma.__version__, made, end.position, end.chain.hex(), contents)
        with os.fdopen(open_private(written), "wb") as file:
            with tarfile.open(fileobj=file, mode="w:gz") as tar:
                _add(tar, _MANIFEST, manifest.dumps())
                for name, data in kept.items():
                    _add(tar, name, data)
                with copy.open("rb") as log:
                    tar.addfile(_member(LOG_FILE_NAME, copy.stat().st_size), log)
            file.flush()
            os.fsync(file.fileno())
        written.rename(target)
        sync_folder(target.parent)
    return manifest


def put_back(source: Path, folder: Path) -> BackupManifest:
    """Unpack a backup into a folder that is empty or not there yet. A backup that is damaged leaves nothing there."""
    with _errors_of(source):
        is_new = not folder.exists()
        folder.mkdir(mode=PRIVATE_FOLDER_MODE, parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise SetupError("is not empty: a backup is restored into an empty folder", field=str(folder))
        trial = Path(tempfile.mkdtemp(prefix=".restoring-", dir=folder))
        try:
            manifest = _unpacked(source, trial)
            log = trial / LOG_FILE_NAME
            end = intact_end(log)
            if end != manifest.end:
                reason = f"the log ends at entry {end.position}, and was backed up to {manifest.position}"
                raise LogDamaged(reason, field=str(source))
            with closing(HeadFile(head_path(log), reopen=False)) as head:
                head.claim(end)
            sync_folder(trial)
            for path in sorted(trial.iterdir(), key=lambda path: (path == log, path != head_path(log))):
                path.rename(folder / path.name)  # the head first: no controller begins a new log beside it
            trial.rmdir()
            folder.chmod(PRIVATE_FOLDER_MODE)
            sync_folder(folder)
        except BaseException:
            shutil.rmtree(trial, ignore_errors=True)
            if is_new:
                shutil.rmtree(folder, ignore_errors=True)
            raise
        return manifest


def _copied(folder: Path, target: Path) -> dict[str, bytes]:
    """Copy the log to a file; returns the contents of the other files, which are those that belong to it."""
    path = folder / LOG_FILE_NAME
    for _ in range(_ATTEMPTS):
        kept = _kept(folder)
        target.unlink(missing_ok=True)
        os.close(open_private(target))
        with clear_errors(path), closing(ReadOnlyFile(path)) as file, file.reading() as connection:
            connection.execute("VACUUM INTO ?", (str(target),))
        if _kept(folder) == kept:  # or a key or token was changed while the log was copied
            return kept
    raise LogError("its keys change all the time; try again", field=str(folder))


def _kept(folder: Path) -> dict[str, bytes]:
    names = (name for name in sorted(os.listdir(folder)) if any(fnmatch(name, each) for each in KEPT_FILE_PATTERNS))
    return {name: _read_private(folder / name) for name in names}


def _read_private(path: Path) -> bytes:
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        return file.read()


def _unpacked(source: Path, folder: Path) -> BackupManifest:
    """Write all files of a backup to a folder, each of which has to be what the manifest says."""
    with tarfile.open(source, "r:*") as tar:
        first = tar.next()
        found = None if first is None or first.name != _MANIFEST or not first.isreg() else tar.extractfile(first)
        if found is None:
            raise ForeignLog("this is no backup of a controller", field=str(source))
        manifest = BackupManifest.loads(found.read(_MAX_MANIFEST_BYTES))
        missing = dict(manifest.files)
        while (member := tar.next()) is not None:
            wanted = missing.pop(member.name, None)
            content = tar.extractfile(member) if member.isreg() else None
            if wanted is None or content is None or os.path.basename(member.name) != member.name:
                raise ForeignLog(f"has {member.name!r}, which its manifest does not name", field=str(source))
            if _written(content, folder / member.name) != wanted:
                raise LogDamaged(f"{member.name} is not what was backed up", field=str(source))
    if missing or LOG_FILE_NAME not in manifest.files:
        raise LogDamaged(f"{', '.join(missing) or LOG_FILE_NAME} is missing in it", field=str(source))
    return manifest


def _written(content: IO[bytes], path: Path) -> FileDigest:
    digest, size = hashlib.sha256(), 0
    with os.fdopen(open_private(path), "wb") as file:
        while piece := content.read(_PIECE_BYTES):
            file.write(piece)
            digest.update(piece)
            size += len(piece)
        file.flush()
        os.fsync(file.fileno())
    return FileDigest(size, digest.hexdigest())


def _digest_of(path: Path) -> FileDigest:
    with path.open("rb") as file:
        return FileDigest(path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())


def _digest(data: bytes) -> FileDigest:
    return FileDigest(len(data), hashlib.sha256(data).hexdigest())


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    tar.addfile(_member(name, len(data)), io.BytesIO(data))


def _member(name: str, size: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = size, PRIVATE_FILE_MODE, int(time.time())
    return info


@contextmanager
def _errors_of(path: Path) -> Iterator[None]:
    """Turn what the disk and tar raise into errors of ours that name the backup."""
    with clear_errors(path):
        try:
            yield
        except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise LogDamaged(f"the backup cannot be read: {error}", field=str(path)) from None
