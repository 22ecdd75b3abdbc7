"""Content-based publish/subscribe whose filtering happens in the network."""

__version__ = "0.1.0"
