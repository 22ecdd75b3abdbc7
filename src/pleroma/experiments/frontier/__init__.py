"""Waste against rules: the best that every technique can do with a table of a given size."""
