"""Events as bytes: what publishers send and subscribers receive. Pure Python, so that a sensor can afford it."""

from pleroma.wire.codec import Codec, EventPacket
from pleroma.wire.fingerprint import fingerprint
from pleroma.wire.header import EVENT_VERSION, MAX_PACKET_BYTES, Header, peek

__all__ = ["EVENT_VERSION", "MAX_PACKET_BYTES", "Codec", "EventPacket", "Header", "fingerprint", "peek"]
