"""Connections to the HTTP server: how many there may be, for how long, and how much each may hold."""
