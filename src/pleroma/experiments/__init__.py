"""Whole systems put together and measured. May use everything; nothing but the command line uses it."""
