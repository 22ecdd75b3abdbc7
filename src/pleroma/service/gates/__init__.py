"""Processes that answer requests and follow the log, and have no switches of their own."""
