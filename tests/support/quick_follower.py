"""A follower of a log that folds every entry at once, and has nobody to tell."""

from collections.abc import Callable

from pleroma.control import Position


class QuickFollower:
    def __init__(self, fold: Callable[[Position, bytes, object], object]) -> None:
        self._fold = fold

    def received(self, body: bytes) -> object:  # noqa: ARG002
        return None

    def fold(self, position: Position, body: bytes, call: object) -> None:
        self._fold(position, body, call)

    def is_large(self, call: object) -> bool:  # noqa: ARG002
        return False

    async def tell(self, position: Position, call: object) -> None:
        """Nobody listens."""
