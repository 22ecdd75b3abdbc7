"""What applications use: publish events, subscribe to them. Plain Python, and httpx once it connects."""

from pleroma.client.client import Client, connect
from pleroma.client.session.publisher import Publisher
from pleroma.client.session.subscription import Subscription

__all__ = ["Client", "Publisher", "Subscription", "connect"]
