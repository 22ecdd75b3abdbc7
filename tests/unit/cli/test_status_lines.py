"""`pleroma status` names who sent forged events, or the ports that they may have come in by, and what clients lost."""

from pleroma.cli.commands.status import show_forged, show_losses
from pleroma.cli.output import out


def shown(found, show=show_forged):
    with out.capture() as printed:
        show(found)
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


def test_what_clients_lost_is_said_and_what_they_did_not_lose_is_not():
    counted = {"unsent": 1186, "overrun": 0, "dropped": 0, "missed": 3, "published": 5}
    said = "lost at clients: 1,186 unsent (could not be sent), 3 missed (never came)"
    assert shown(counted, show_losses) == said
    assert shown(dict.fromkeys(counted, 0), show_losses) == ""
