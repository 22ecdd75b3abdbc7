"""Whole services for tests: `in_process` behind ASGI without a socket, `process` in a process of its own."""
