"""Where an experiment's events and subscriptions come from: a synthetic model, or the stock quotes."""

from __future__ import annotations

from dataclasses import replace

from pleroma.workloads import Model, StockModel, Workload, generate, generate_stock

Source = Model | StockModel


def generated(source: Source) -> Workload:
    return generate(source) if isinstance(source, Model) else generate_stock(source)


def smaller(source: Source) -> Source:
    """The same workload with fewer subscriptions and events, for a run of seconds."""
    if isinstance(source, Model):
        return replace(source, subscriptions=source.subscriptions // 5, events=source.events // 10)
    return replace(source, subscriptions=source.subscriptions // 10)
