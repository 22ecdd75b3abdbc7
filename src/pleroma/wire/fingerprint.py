"""Sixteen bits that tell one schema from another.

Every packet carries them, since all versions of a schema have one number: they tell by which version to read its bytes.
A receiver that does not know the version refuses the packet, and does not read one layout as another.
"""

from __future__ import annotations

import json
from hashlib import sha256

from pleroma.content import Schema


def fingerprint(schema: Schema) -> int:
    """The first two bytes of the SHA-256 of the schema's JSON, written as in a plan: sorted, no spaces, UTF-8."""
    text = json.dumps(schema.to_json(), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    # the name of a schema may be any text, half a character included
    return int.from_bytes(sha256(text.encode(errors="surrogatepass")).digest()[:2])
