"""Words and bounds of the API that the controller and its clients share."""

from __future__ import annotations

ANY_HOST = "any"
"""In the place of a host's name: the controller chooses the host."""
MAX_SAMPLE_AGE_SECONDS = 86_400.0
"""The controller refuses samples of events that were published longer ago."""
REQUEST_HEADERS = ("content-type", "if-none-match")
"""The headers of a request that mean something to the API; no others travel in-band."""
PRINCIPAL_HEADER = "pleroma-principal"
"""By which a program tells its host agent whose token it has, in percent-encoding; no controller looks at it."""
ANSWER_HEADERS = ("content-type", "etag", "retry-after")
"""The headers of an answer that mean something to clients; no others travel in-band."""
MAX_REPORTED_SUBSCRIPTIONS = 2_000
"""Subscriptions in one report: whoever has more sends several. A longer one would keep others waiting."""
MAX_BATCH_ITEMS = 1_000
"""Registrations, or withdrawals, in one request."""
CA_VARIABLE = "PLEROMA_CA"
"""The environment variable with the file of the authority that signed the controller's certificate."""
