"""Events as bytes: what publishers send and subscribers receive. Pure Python, so that a sensor can afford it."""

from pleroma.wire.codec import Codec, EventPacket
from pleroma.wire.fingerprint import fingerprint
from pleroma.wire.header import MAX_SIZE, VERSION, Header, peek

__all__ = ["MAX_SIZE", "VERSION", "Codec", "EventPacket", "Header", "fingerprint", "peek"]
