"""The planning processes of controllers, found by their parents and by the program that they run."""

from pathlib import Path


def planning_pids(controller: int) -> list[int]:
    """Of a controller's process: the pids of its planning processes that run."""
    running = (each for each in Path("/proc").glob("[0-9]*") if is_planning(int(each.name)))
    return [int(each.name) for each in running if _parent(each) == controller]


def is_planning(pid: int) -> bool:
    """Whether a process runs and is a planning process; one that has ended and was not waited for does not run."""
    try:
        return b"pleroma.replanning.planning_worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _parent(folder: Path) -> int | None:
    try:
        return int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None
