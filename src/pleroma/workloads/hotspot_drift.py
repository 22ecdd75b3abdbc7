"""Traffic that drifts in one place: the subscriptions and events of one hotspot go somewhere else, all others stay."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pleroma.arrays.types import Ints
from pleroma.content import Filter
from pleroma.content.batch import EventBatch
from pleroma.workloads.hotspot_layout import HotspotLayout
from pleroma.workloads.model import Model
from pleroma.workloads.synthetic import generate, hotspots_of_subscriptions
from pleroma.workloads.workload import Workload


@dataclass(frozen=True, slots=True)
class HotspotDrift:
    before: Workload
    subscriptions: tuple[Filter, ...]
    """After the drift: those that stay, in their places, and new ones in the places of those that have gone."""
    arrived: tuple[Filter, ...]
    """The new ones among them."""
    events: EventBatch
    """After the drift, in no order."""
    moved: EventBatch
    """Those of the hotspot among them."""


def hotspot_moved(model: Model, rank: int, seed: int) -> HotspotDrift:
    """The hotspot of this rank goes to where the model with another seed has its own. 0 is the most popular."""
    other = replace(model, seed=seed)
    before, after = generate(model), generate(other)
    gone = np.flatnonzero(hotspots_of_subscriptions(model) == rank)
    arriving = np.flatnonzero(hotspots_of_subscriptions(other) == rank)[: len(gone)]
    subscriptions = list(before.subscriptions)
    for place, number in zip(gone.tolist(), arriving.tolist(), strict=False):
        subscriptions[place] = after.subscriptions[number]
    stays, comes = hotspots_of_events(model, before.events) != rank, hotspots_of_events(other, after.events) == rank
    order = np.random.default_rng([model.seed, seed, rank]).permutation(int(stays.sum() + comes.sum()))
    columns = [
        np.concatenate([mine[stays], its[comes]])[order]
        for mine, its in zip(before.events.columns, after.events.columns, strict=True)
    ]
    return HotspotDrift(
        before,
        tuple(subscriptions),
        tuple(after.subscriptions[number] for number in arriving.tolist()),
        EventBatch(before.schema, tuple(columns)),
        EventBatch(before.schema, tuple(column[comes] for column in after.events.columns)),
    )


def hotspots_of_events(model: Model, events: EventBatch) -> Ints:
    """By event, the rank of the hotspot that it is nearest to."""
    places = (events.points() - model.low) / (model.high - model.low + 1)
    centres = HotspotLayout.of(model).centres
    return np.asarray(((places[:, None, :] - centres[None]) ** 2).sum(axis=2).argmin(axis=1), np.int64)
