"""Hypothesis draws the same examples on every run. HYPOTHESIS_PROFILE=thorough searches longer, and anew each time."""

import os

from hypothesis import settings

settings.register_profile("default", derandomize=True, max_examples=60, deadline=None)
settings.register_profile("thorough", max_examples=2000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
