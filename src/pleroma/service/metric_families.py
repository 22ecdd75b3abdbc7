"""Gauges and counters with at most one label, as Prometheus reads them from the parts of a service."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric


def gauge(name: str, what: str, values: Iterable[tuple[str, float]], label: str | None = None) -> Metric:
    return _filled(GaugeMetricFamily(name, what, labels=[label] if label else None), values)


def counter(name: str, what: str, values: Iterable[tuple[str, float]], label: str | None = None) -> Metric:
    return _filled(CounterMetricFamily(name, what, labels=[label] if label else None), values)


def _filled(family: GaugeMetricFamily | CounterMetricFamily, values: Iterable[tuple[str, float]]) -> Metric:
    labelled = bool(family._labelnames)
    for label, value in values:
        family.add_metric([label] if labelled else [], value)
    return family
