"""Workloads: the papers' synthetic models, real stock quotes, and arrival times of requests."""

from pleroma.workloads.hotspot_layout import HotspotLayout
from pleroma.workloads.model import EXPRESSIVE, PLEROMA, PRESETS, THESIS, Model
from pleroma.workloads.stock import StockModel, generate_stock, quotes
from pleroma.workloads.synthetic import generate, hotspots_of_subscriptions
from pleroma.workloads.workload import Workload

__all__ = [
    "EXPRESSIVE",
    "PLEROMA",
    "PRESETS",
    "THESIS",
    "HotspotLayout",
    "Model",
    "StockModel",
    "Workload",
    "generate",
    "generate_stock",
    "hotspots_of_subscriptions",
    "quotes",
]
