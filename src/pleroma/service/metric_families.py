"""Gauges and counters as Prometheus reads them from the parts of a service.

A value comes with that of its label, or with a tuple of several; where there are no labels, with an empty text.
"""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

Labelled = tuple[str | tuple[str, ...], float]


def gauge(name: str, what: str, values: Iterable[Labelled], *labels: str) -> Metric:
    return _filled(GaugeMetricFamily(name, what, labels=labels), values)


def counter(name: str, what: str, values: Iterable[Labelled], *labels: str) -> Metric:
    return _filled(CounterMetricFamily(name, what, labels=labels), values)


def _filled(family: GaugeMetricFamily | CounterMetricFamily, values: Iterable[Labelled]) -> Metric:
    for labels, value in values:
        family.add_metric([labels] if isinstance(labels, str) else labels, value)
    return family
