"""How a client proves that it has a token without showing it, and what the controller keeps of a token.

The client's key is the SHA-256 of the token, and the controller keeps the SHA-256 of that key, the verifier. A proof is
the client's key, masked with an HMAC by the verifier over what is said with it, so it proves nothing with other words.
The controller takes the mask off and compares verifiers (as in SCRAM, RFC 5802). Whoever reads only the verifiers can
neither prove anything nor find a session's key.
"""

from __future__ import annotations

import hashlib
import hmac

PROOF_BYTES = 32


def client_key(token: str | bytes) -> bytes:
    """What the client proves to have."""
    return hashlib.sha256(token.encode() if isinstance(token, str) else token).digest()


def verifier_of(key: bytes) -> bytes:
    """What the controller keeps of a client's key."""
    return hashlib.sha256(key).digest()


def prove(key: bytes, said: bytes) -> bytes:
    """The proof that who says this has the client's key."""
    return _masked(key, verifier_of(key), said)


def proven_key(verifier: bytes, said: bytes, proof: bytes) -> bytes | None:
    """The client's key of a proof; None if whoever said this does not have it."""
    key = _masked(proof, verifier, said)
    return key if hmac.compare_digest(verifier_of(key), verifier) else None


def session_key(key: bytes, nonce: bytes, server_nonce: bytes) -> bytes:
    """The key of a session, which only the two have that know the client's key and drew the nonces."""
    return hmac.digest(key, b"pleroma session" + nonce + server_nonce, "sha256")


def _masked(value: bytes, verifier: bytes, said: bytes) -> bytes:
    mask = hmac.digest(verifier, said, "sha256")
    return (int.from_bytes(value) ^ int.from_bytes(mask)).to_bytes(PROOF_BYTES)
