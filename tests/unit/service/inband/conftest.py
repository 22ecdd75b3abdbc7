"""Conversations that send again soon, so that tests of lost packets do not wait."""

import pytest

from pleroma.client.inband import conversation


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(conversation, "FIRST_RESEND_SECONDS", 0.03)
    monkeypatch.setattr(conversation, "MAX_RESEND_SECONDS", 0.1)
