"""Hypothesis draws the same examples on every run. HYPOTHESIS_PROFILE=thorough searches longer, and anew each time.

With pytest-xdist, all tests on Spark go to one worker, the first, since they share a session. The others are spread in
small portions: slow ones stand together, and one worker would have them all while the others are idle.
"""

import os

import pytest
from hypothesis import settings

settings.register_profile("default", derandomize=True, max_examples=60, deadline=None)
settings.register_profile("thorough", max_examples=2000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


PORTION = 8


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    from xdist.scheduler import LoadScheduling

    class SparkTogether(LoadScheduling):
        def __init__(self):
            super().__init__(config, log)
            self.maxschedchunk = self.maxschedchunk or PORTION

        def _send_tests(self, node, num):
            together = [each for each in self.pending if self.collection[each].startswith("tests/spark/")]
            self.pending.sort(key=lambda each: each not in together)
            super()._send_tests(node, len(together) or num)

    return SparkTogether()
