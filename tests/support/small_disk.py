"""A small file system of its own, mounted for a test, so that a disk is really full."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, megabytes: int = 1) -> Iterator[Path]:
    """The folder where it is mounted."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk: the full disk was NOT tested")
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "pleroma-test", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"a small disk cannot be mounted here ({done.stderr.strip()}): the full disk was NOT tested")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def free_bytes(disk: Path) -> int:
    return os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
