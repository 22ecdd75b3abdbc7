"""Covering more with less, in plain Python: which cells of a binary tree to keep when only so many may stay."""

from __future__ import annotations

from collections.abc import Sequence


def fewest(volume: Sequence[float], child: Sequence[int], max_cells: int) -> list[int]:
    """Of a binary tree with more leaves, the `max_cells` nodes that together cover all leaves with the least volume.

    A node has its two parts at `child` and behind it, or none (0). The best k cells of a subtree are its root (k = 1)
    or the best way to share k between its halves; children follow their parents, so one pass from the back decides all.
    Exact where the sums of volumes are: pass whole numbers where floats would round.
    """
    volumes: list[list[float]] = [[] for _ in volume]  # [k - 1]: the least volume of k cells
    shares: list[list[int]] = [[] for _ in volume]
    for number in range(len(volume) - 1, -1, -1):
        best, share = [volume[number]], [0]
        if child[number]:
            left, right = volumes[child[number]], volumes[child[number] + 1]
            for k in range(2, min(len(left) + len(right), max_cells) + 1):
                splits = range(max(1, k - len(right)), min(len(left), k - 1) + 1)
                i = min(splits, key=lambda i: left[i - 1] + right[k - i - 1])
                best.append(left[i - 1] + right[k - i - 1])
                share.append(i)
        volumes[number], shares[number] = best, share
    chosen = []
    stack = [(0, max_cells)]
    while stack:
        number, k = stack.pop()
        if k == 1:
            chosen.append(number)
        else:
            i = shares[number][k - 1]
            stack += [(child[number] + 1, k - i), (child[number], i)]
    return chosen
