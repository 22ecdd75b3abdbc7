"""How the cost of a request and the memory grow with the standing subscriptions, on a network of 1,024 switches.

There is a router for each number of subscriptions, in a process of its own. They take the same number of requests in
turns, round by round, so that other work on the machine slows all of them alike.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import fmean, median
from typing import Any

ROUTER = Path(__file__).with_name("_standing_router.py")
NETWORK = "random:1024x2048"
SIZES = (1_000, 10_000)
FULL_SIZES = (10_000, 100_000, 1_000_000)
ROUNDS = 7
PAIRS = 400
"""Subscriptions that come and go in a round."""
STEPS = 2


def standing(advance: Callable[[float], None], full: bool = False) -> dict[str, Any]:
    """Figures by the number of standing subscriptions, and the cost with the most of them to that with the fewest."""
    sizes = FULL_SIZES if full else SIZES
    with ExitStack() as stack:
        routers = {}
        for size in sizes:
            routers[size] = stack.enter_context(_Router(NETWORK, size))
            advance(STEPS / 2 / len(sizes))
        rounds: dict[int, list[dict[str, Any]]] = {size: [] for size in sizes}
        for _ in range(ROUNDS):
            for size, router in routers.items():
                rounds[size].append(router.round(PAIRS))
            advance(STEPS / 2 / ROUNDS)
        figures = {str(size): _figures(size, router.loaded, rounds[size]) for size, router in routers.items()}
    fewest, most = figures[str(sizes[0])], figures[str(sizes[-1])]
    growth = most["cpu_us_per_request"] / fewest["cpu_us_per_request"]
    return {"standing": figures, f"growth_{_short(sizes[0])}_to_{_short(sizes[-1])}": round(growth, 2)}


def _figures(size: int, loaded: dict[str, Any], rounds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Medians over the rounds, of the mean request of a round; and the median request of all."""
    request_us = median(fmean(each["pairs_s"]) / 2 * 1e6 for each in rounds)
    pairs_s = sorted(pair for each in rounds for pair in each["pairs_s"])
    return {
        "cpu_us_per_request": round(request_us, 1),
        "requests_per_s": round(1e6 / request_us),
        "cpu_us_p50": round(median(pairs_s) / 2 * 1e6, 1),
        "cpu_us_p99": round(pairs_s[len(pairs_s) * 99 // 100] / 2 * 1e6, 1),
        "operations_per_request": round(fmean(each["operations"] / len(each["pairs_s"]) / 2 for each in rounds), 1),
        "rss_mb_per_1000": round(loaded["rss_mb_added"] / size * 1000, 2),
        **loaded,
    }


def _short(size: int) -> str:
    return f"{size // 1_000_000}m" if size % 1_000_000 == 0 else f"{size // 1_000}k"


class _Router:
    """The process of one router."""

    def __init__(self, network: str, size: int) -> None:
        command = [sys.executable, str(ROUTER), network, str(size)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603

    def __enter__(self) -> _Router:
        try:
            self.loaded = self._answer()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def round(self, pairs: int) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{pairs}\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the process of a router has ended"
        figures: dict[str, Any] = json.loads(line)
        return figures
