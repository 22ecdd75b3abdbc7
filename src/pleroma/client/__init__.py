"""What applications use: publish events, subscribe to them. Plain Python, and httpx once it connects."""

from pleroma.client.client import Client, connect
from pleroma.client.publisher import Publisher
from pleroma.client.subscription import Subscription

__all__ = ["Client", "Publisher", "Subscription", "connect"]
