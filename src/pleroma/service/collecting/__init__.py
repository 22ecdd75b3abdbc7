"""Collecting for the pipeline: what the controller knows and what clients send goes into the lake."""
