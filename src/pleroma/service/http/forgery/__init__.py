"""Forged events: the keys by which receivers know them, and where those that were noticed came from."""
