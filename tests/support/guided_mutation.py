"""A small fuzzer that is guided by coverage: inputs that reach new lines are kept, and further ones are made of them.

Lines are noted by `sys.settrace`, in the modules under test alone and for some of the inputs, since it is slow.
"""

import sys
from collections.abc import Callable, Iterable
from random import Random
from types import CodeType, FrameType, ModuleType
from typing import Any

TRACED_EVERY = 8
"""One in so many inputs is traced."""
MAX_INPUT_BYTES = 4096
_NUMBERS = (0, 1, 2, 7, 8, 16, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


class GuidedMutation:
    """Gives ever new inputs to `target`, which must raise nothing but `allowed`."""

    def __init__(
        self,
        target: Callable[[bytes], object],
        seeds: Iterable[bytes],
        modules: Iterable[ModuleType],
        allowed: tuple[type[Exception], ...],
        seed: int = 0,
    ) -> None:
        self.kept = list(seeds)
        self.lines: set[tuple[CodeType, int]] = set()
        self.refused = 0
        self._target = target
        self._files = {module.__file__ for module in modules}
        self._allowed = allowed
        self._random = Random(seed)
        for each in self.kept:
            self._traced(each)

    def run(self, count: int) -> None:
        for number in range(count):
            data = self._mutated()
            if number % TRACED_EVERY == 0:
                known = len(self.lines)
                self._traced(data)
                if len(self.lines) > known:
                    self.kept.append(data)
            else:
                self._try(data)

    def _try(self, data: bytes) -> None:
        try:
            self._target(data)
        except self._allowed:
            self.refused += 1
        except BaseException as error:
            error.add_note(f"the input was {data.hex()}")
            raise

    def _traced(self, data: bytes) -> None:
        before = sys.gettrace()
        sys.settrace(self._on_call)
        try:
            self._try(data)
        finally:
            sys.settrace(before)

    def _on_call(self, frame: FrameType, _event: str, _given: Any) -> Any:
        return self._on_line if frame.f_code.co_filename in self._files else None

    def _on_line(self, frame: FrameType, _event: str, _given: Any) -> Any:
        self.lines.add((frame.f_code, frame.f_lineno))
        return self._on_line

    def _mutated(self) -> bytes:
        draw = self._random
        data = bytearray(draw.choice(self.kept))
        for _ in range(draw.choice((1, 1, 1, 2, 4, 8))):
            self._mutate(data)
        return bytes(data[:MAX_INPUT_BYTES])

    def _mutate(self, data: bytearray) -> None:
        draw, place = self._random, self._random.randrange(len(data) + 1)
        kind = draw.randrange(8)
        if kind == 0 and data:
            data[place % len(data)] ^= 1 << draw.randrange(8)
        elif kind == 1 and data:
            data[place % len(data)] = draw.randrange(256)
        elif kind == 2:
            width = draw.choice((1, 2, 4))
            data[place : place + width] = (draw.choice(_NUMBERS) & (1 << 8 * width) - 1).to_bytes(width, "big")
        elif kind == 3:
            del data[place:]
        elif kind == 4:
            del data[place : place + draw.randrange(1, 17)]
        elif kind == 5:
            data[place:place] = draw.randbytes(draw.randrange(1, 17))
        elif kind == 6 and data:
            end = place + draw.randrange(1, 65)
            data[place:place] = data[place:end]
        else:
            other = draw.choice(self.kept)
            data[place:] = other[draw.randrange(len(other) + 1) :]
