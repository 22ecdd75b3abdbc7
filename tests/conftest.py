"""Hypothesis draws the same examples on every run. HYPOTHESIS_PROFILE=thorough searches longer, and anew each time.

With pytest-xdist, a test file goes to one worker as a whole, so that what a module sets up is set up once. Two folders
go to one worker as a whole: tests/spark shares a Spark session, and tests/network is not to compete with itself.

Tests of processes, switches and Spark wait for most of their time, while others compute. So there are more workers than
cores (see scripts/test): the first two begin with the tests that wait, the others with those that compute. Tests that
compute have a low priority, and take from the processor what the tests that wait leave over.
"""

import os
from contextlib import suppress

import pytest
from hypothesis import settings

settings.register_profile("default", derandomize=True, max_examples=60, deadline=None)
settings.register_profile("thorough", max_examples=2000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

WHOLE_FOLDERS = ("tests/spark/", "tests/network/")
WAITING = (*WHOLE_FOLDERS, "tests/process/", "tests/service/", "tests/browser/")
COMPUTING = ("tests/experiments/", "tests/property/", "tests/unit/")
WAITING_WORKERS = 2
PRIORITY = os.getpriority(os.PRIO_PROCESS, 0)
COMPUTING_NICENESS = 10


def worker_number(worker_id):
    """The number in a name that pytest-xdist gives, like gw3."""
    return int(worker_id.removeprefix("gw"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item):
    if hasattr(item.config, "workerinput"):
        computes = item.nodeid.startswith(COMPUTING)
        with suppress(PermissionError):  # only root may raise a priority again
            os.setpriority(os.PRIO_PROCESS, 0, PRIORITY + COMPUTING_NICENESS * computes)


def place_in_line(unit, waiting_first):
    """Sorts files and folders by what a worker takes first; long files of a kind stand in the folders named first."""
    order = (*WAITING, *COMPUTING) if waiting_first else (*COMPUTING, *reversed(WAITING))
    return next((place for place, folder in enumerate(order) if unit.startswith(folder)), len(order))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    from xdist.scheduler import LoadFileScheduling

    class WaitingBesideComputing(LoadFileScheduling):
        def _split_scope(self, nodeid):
            whole = (folder for folder in WHOLE_FOLDERS if nodeid.startswith(folder))
            return next(whole, super()._split_scope(nodeid))

        def _assign_work_unit(self, node):
            waiting_first = worker_number(node.gateway.id) < WAITING_WORKERS
            first = min(self.workqueue, key=lambda unit: place_in_line(unit, waiting_first))
            self.workqueue.move_to_end(first, last=False)
            super()._assign_work_unit(node)

    return WaitingBesideComputing(config, log)
