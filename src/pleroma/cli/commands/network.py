"""`pleroma network`: the cables between switches, and the trees of events on them."""

from __future__ import annotations

from typing import Any

from pleroma.cli.options import JsonFlag
from pleroma.cli.output import out, show_json, show_table
from pleroma.cli.remote import DEFAULT_URL, TokenOption, UrlOption, remote_api


def network(url: UrlOption = DEFAULT_URL, token: TokenOption = None, json: JsonFlag = False) -> None:
    """The cables between switches, what is cut or away, and which trees of events each cable carries."""
    with remote_api(url, token) as remote:
        there = remote.get("/v1/network")
        found = remote.get("/v1/network/trees")
    if json:
        show_json({"network": there, "trees": found})
        return
    states = there["switches"]
    away = ", ".join(f"{name} is {state}" for name, state in states.items() if state != "ready")
    out.print(f"{there['kind']}, {len(states)} switches{f': {away}' if away else ''}", markup=False, soft_wrap=True)
    if there["unreachable"]:
        out.print(f"not reached: {', '.join(there['unreachable'])}", markup=False, soft_wrap=True)
    out.print(_in_words(found["dealt"], len(found["trees"]), len(found["to_move"])), markup=False)
    rows = [(tree["number"], len(tree["cables"]), ", ".join(map(_part, tree["schemas"]))) for tree in found["trees"]]
    show_table("trees", ("tree", "cables", "carries"), rows)
    carried: dict[str, list[int]] = {cable: [] for cable in found["unused"]}
    for tree in found["trees"]:
        for cable in tree["cables"]:
            carried.setdefault(cable, []).append(tree["number"])
    cables = [(cable, ", ".join(map(str, carried[cable])) or "none") for cable in sorted(carried)]
    show_table("cables", ("cable", "trees"), [*cables, *((cable, "cut") for cable in there["cut"])])


def show_trees(summary: dict[str, Any]) -> None:
    """How trees are dealt out, in one line."""
    out.print(_in_words(summary["dealt"], summary["count"], summary["to_move"]), markup=False)


def _in_words(dealt: str, count: int, to_move: int) -> str:
    moving = f", {to_move:,} {'schema has' if to_move == 1 else 'schemas have'} still to move" if to_move else ""
    return f"trees: {dealt}, {count:,} in use{moving}"


def _part(part: dict[str, Any]) -> str:
    version = "" if part["version"] == "in_force" else ", the version beside the one in force"
    sampled = "" if part["sampled"] is None else f", {part['sampled']:.1%} of its events"
    return f"{part['name']}: {part['share']:.1%} in {part['cells']:,} dz{sampled}{version}"
