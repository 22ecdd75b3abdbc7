"""How large a filter may become, and how much work it may take: boxes met, pieces made and boxes compared.

A short text can ask for much work, so the length of a text says little. Whoever takes filters from strangers reads them
with a budget. Without one a filter may take as long as it likes: what was accepted once is never refused later.
"""

from __future__ import annotations

import math

from pleroma.errors import ContentError, FilterTooCostly

MAX_BOXES = 1024
"""More boxes than this in one filter is refused: each costs flow entries, and `not` and `in` multiply."""
PIECES_PER_BOX = 16
"""More pieces than this for each box allowed, on the way to a normal form, are refused too."""


class WorkBudget:
    """Counts the work on one filter, and refuses the filter when there was too much.

    A unit is about a microsecond.
    """

    __slots__ = ("left", "max_boxes")

    def __init__(self, units: float, max_boxes: int = MAX_BOXES) -> None:
        self.left = units
        self.max_boxes = max_boxes

    def spend(self, units: int) -> None:
        """Note work that is about to be done."""
        self.left -= units
        if self.left < 0:
            raise FilterTooCostly("the filter takes more work than is allowed: make it of fewer or simpler parts")

    @property
    def max_pieces(self) -> int:
        return PIECES_PER_BOX * self.max_boxes

    def too_large(self) -> ContentError:
        return ContentError(f"the filter needs more than the {self.max_boxes} boxes allowed")


UNBOUNDED = WorkBudget(math.inf)
"""For filters of the program itself, and those that were accepted before."""
