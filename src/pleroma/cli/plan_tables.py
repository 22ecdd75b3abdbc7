"""Plans as people read them: what an index looks at, where a plan came from, what was predicted, and what it did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pleroma.cli.output import out, show_table
from pleroma.content import Schema
from pleroma.index import GridIndex, Index, SelectiveIndex, TreeIndex, index_from_json
from pleroma.index.tree_walk import LEAF


def show_plan(answer: Mapping[str, Any]) -> None:
    """What a plan looks at, by attribute, and its origin; `answer` is one of the API's history of plans."""
    schema, index = _read(answer)
    if isinstance(index, TreeIndex):
        cuts, leaves = Counter(index.dimensions), leaves_by_attribute(index)
        total = cuts[LEAF]
        rows = [
            (name, cuts[d], leaves[d], f"{leaves[d] / total:.0%}") for d, name in enumerate(schema.names) if cuts[d]
        ]
        title = f"{total:,} leaves, by attributes on the way to them"
        show_table(title, ("attribute", "cuts", "leaves", "share"), rows)
    if answer.get("origin") is not None:
        origin = answer["origin"]
        out.print(f"asked for by {_by(origin)} at {_at(origin)}", markup=False)
        out.print(f"predicted: {_predicted(origin) or 'nothing'}", markup=False)
    if answer.get("measured") is not None:
        out.print(f"measured: {_measured(answer['measured'])}", markup=False)


def show_plans(schema: str, plans: Sequence[Mapping[str, Any]]) -> None:
    """A line for each plan of a schema."""
    rows = []
    for each in plans:
        origin, measured = each.get("origin"), each.get("measured")
        rows.append(
            (
                each["epoch"],
                "" if origin is None else _at(origin),
                "" if origin is None else _by(origin),
                "" if origin is None else _predicted(origin),
                "" if measured is None else _measured(measured),
                each["members"],
                described(each),
            )
        )
    show_table(f"plans of {schema}", ("epoch", "asked for", "by", "predicted", "measured", "members", "index"), rows)


def described(answer: Mapping[str, Any]) -> str:
    """An index in a few words."""
    schema, index = _read(answer)
    names = schema.names
    if isinstance(index, GridIndex):
        counts = {names[d]: index.order.count(d) for d in dict.fromkeys(index.order)}
        listed = ", ".join(f"{name} {bits}" for name, bits in counts.items()) or "nothing"
        return f"a grid of {len(index.order)} bits ({listed})"
    if isinstance(index, SelectiveIndex):
        quiet = ", quiet outside of them" if index.quiet else ""
        return f"{len(index.regions) - 1} rectangles with a grid in each{quiet}"
    assert isinstance(index, TreeIndex)  # noqa: S101 (there is no other kind)
    cuts = Counter(index.dimensions)
    listed = ", ".join(f"{name} {cuts[d]:,}" for d, name in enumerate(names) if cuts[d]) or "none"
    return f"a tree of {cuts[LEAF]:,} cells (cuts: {listed})"


def leaves_by_attribute(tree: TreeIndex) -> Counter[int]:
    """By attribute, how many leaves have a cut along it on the way from the root."""
    found: Counter[int] = Counter()
    ways = [frozenset[int]()]
    for d in tree.dimensions:
        way = ways.pop()
        if d == LEAF:
            found.update(way)
        else:
            ways += [way | {d}] * 2
    return found


def _read(answer: Mapping[str, Any]) -> tuple[Schema, Index]:
    schema = Schema.from_json(answer["plan"]["schema"])
    return schema, index_from_json(schema, answer["plan"]["index"])


def _at(origin: Mapping[str, Any]) -> str:
    return str(origin["at"]).replace("T", " ").removesuffix("+00:00")


def _by(origin: Mapping[str, Any]) -> str:
    return "the controller" if origin["by"] is None else str(origin["by"])


def _predicted(origin: Mapping[str, Any]) -> str:
    from pleroma.cli.plan_file import prediction_in_words

    return prediction_in_words(origin["predicted"])


def _measured(measured: Mapping[str, Any]) -> str:
    if measured["waste_at_hosts"] is None:
        return "nothing came to hosts"
    return f"{measured['waste_at_hosts']:.1%} waste at hosts, of {measured['packets']:,} packets"
