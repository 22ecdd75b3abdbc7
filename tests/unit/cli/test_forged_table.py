"""`pleroma status` names who sent forged events, or the ports that they may have come in by."""

from pleroma.cli.commands.status import show_forged
from pleroma.cli.output import out


def shown(forged):
    with out.capture() as printed:
        show_forged(forged)
    return " ".join(printed.get().split())


def test_senders_and_ports_are_named():
    text = shown(
        {
            "entered": [{"host": "h2", "principal": "mallory", "events": 12}],
            "reported": [{"schema": "stock", "events": 7, "may_enter_at": ["R1 port 1 (h1)"]}],
        }
    )
    for part in ("forged events", "from mallory at h2", "12", "of stock, at subscribers", "R1 port 1 (h1)"):
        assert part in text


def test_nothing_is_shown_where_nothing_was_forged():
    assert shown({"entered": [], "reported": []}) == ""
