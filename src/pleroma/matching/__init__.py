"""Filtering in software: which of many filters want an event, exactly."""

from pleroma.matching.brute import wanted_by

__all__ = ["wanted_by"]
