"""Simulated switches with the semantics of OpenFlow tables, event by event and in batches."""
