"""Keys of events at the API: who is told which, and what becomes of reports about forged events."""

import stat

import pytest
from structlog.testing import capture_logs

from pleroma.control.entry_guard import FORGED_LOG_SECONDS
from pleroma.errors import SetupError
from pleroma.service.http.forgery.event_keys import EVENT_KEYS_FILE, EventKeys
from pleroma.service.http.forgery.forged_reports import ForgedReports, entry_ports
from pleroma.wire.event_tags import publisher_key, schema_key
from support.service.in_process import world
from support.strategies import STOCK
from support.waiting import run

KEYS = EventKeys(bytes(range(32)))


def test_the_secret_is_made_once_in_a_file_that_only_its_owner_reads(tmp_path):
    made = EventKeys.open(tmp_path)
    path = tmp_path / EVENT_KEYS_FILE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = EventKeys.open(tmp_path)
    assert (again.secret, again.id) == (made.secret, made.id)
    assert made.secret.hex() not in made.id
    path.unlink()
    assert EventKeys.open(tmp_path).id != made.id


@pytest.mark.parametrize("content", ["", "no hex", "00" * 31])
def test_a_damaged_secret_is_one_clear_error(tmp_path, content):
    (tmp_path / EVENT_KEYS_FILE).write_text(content)
    with pytest.raises(SetupError, match=r"events\.key: cannot be read"):
        EventKeys.open(tmp_path)


def test_a_registration_is_answered_with_its_key_to_its_owner_and_to_nobody_else(tmp_path):
    async def main():
        async with world(tmp_path, keys=KEYS) as admin:
            everything = {"*": "true"}
            ann = await admin.principal("ann", publish=everything, read=everything)
            number = (await admin.get("/v1/schemas/stock"))["number"]
            whole = schema_key(KEYS.secret, number, "stock")
            advertised, subscribed = await ann.advertise(key="one"), await ann.subscribe(key="two")
            assert advertised["event_key"] == publisher_key(whole, advertised["publisher"]).hex()
            assert subscribed["event_key"] == whole.hex()
            assert await ann.advertise(key="one") == advertised  # answered again
            for made, path in ((advertised, "advertisements"), (subscribed, "subscriptions")):
                assert (await ann.get(f"/v1/{path}/{made['id']}"))["event_key"] == made["event_key"]
                assert (await admin.get(f"/v1/{path}/{made['id']}"))["event_key"] is None
                for who in (ann, admin):
                    assert "event_key" not in (await who.get(f"/v1/{path}"))["items"][0]
            await admin.app.state.service.controller.save_snapshot()
            stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
            for made in (advertised, subscribed):
                assert made["id"].encode() in stored
                assert made["event_key"].encode() not in stored
                assert bytes.fromhex(made["event_key"]) not in stored

    run(main)


def test_without_tags_there_are_no_keys_and_every_program_may_join(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            assert (await api.advertise())["event_key"] is None
            made = await api.subscribe(lease="mine")
            assert made["event_key"] is None
            assert (await api("PUT", "/v1/leases/mine", 200)).json()["event_keys"] is None
            assert (await api.post("/v1/hosts/h1/attachments", None))["tags"] is False
            secret = {"schema": STOCK.to_json() | {"name": "secret", "encrypted": True}}
            refused = (await api("POST", "/v1/schemas", 400, json=secret)).json()["error"]
            assert "encryption takes the keys of --event-tags on" in refused["reason"]

    run(main)


def test_a_program_that_does_not_know_of_tags_is_told_so_when_it_joins(tmp_path):
    async def main():
        async with world(tmp_path, keys=KEYS) as api:
            error = await api.error("POST", "/v1/hosts/h1/attachments", 400, "bad_request")
            assert "events have tags here" in error["reason"]
            assert (await api.post("/v1/hosts/h1/attachments?tags=true", None))["tags"] is True
            await api.subscribe(lease="mine")
            assert (await api("PUT", "/v1/leases/mine", 200)).json()["event_keys"] == KEYS.id

    run(main)


def test_reported_forgeries_are_shown_with_the_ports_they_may_have_come_in_by(tmp_path):
    async def main():
        async with world(tmp_path, topology="line:4", keys=KEYS) as api:
            await api.advertise("price < 100", host="h1")
            await api.advertise("price > 900", host="h2")
            await api.advertise("true", host="h3")
            made = await api.subscribe("price < 10", host="h3")
            with capture_logs() as said:
                for _ in range(3):
                    await api.post("/v1/reports", {"subscriptions": {made["id"]: {"forged": 7, "delivered": 1}}}, 204)
            (line,) = [each for each in said if each["event"] == "clients report forged events"]
            assert (line["schema"], line["at"], line["may_enter_at"]) == ("stock", "h3", "R1 port 1 (h1)")
            found = await api.get("/v1/statistics")
            assert found["reported"]["forged"] == found["by_subscription"][made["id"]]["forged"] == 21
            assert found["forged"] == {
                "entered": [],
                "reported": [{"schema": "stock", "events": 21, "may_enter_at": ["R1 port 1 (h1)"]}],
            }
            assert "pleroma_events_forged_total 21.0" in (await api("GET", "/metrics")).text
            other = await api.principal("ann", read={"*": "true"}, role="subscriber")
            assert "forged" not in await other.get("/v1/statistics")

    run(main)


def test_a_report_is_said_once_in_a_while(tmp_path):
    async def main():
        async with world(tmp_path, topology="line:4") as api:
            state, now = api.app.state.service.state, [0.0]
            subscription = state.registrations[(await api.subscribe(host="h2"))["id"]]
            reports = ForgedReports(clock=lambda: now[0])
            with capture_logs() as said:
                for _ in range(4):
                    reports.add(state, subscription, 2)
                    reports.add(state, subscription, 0)
                    now[0] += FORGED_LOG_SECONDS / 2
            assert [each["events"] for each in said] == [2, 6]
            assert reports.shown() == [{"schema": "stock", "events": 8, "may_enter_at": []}]

    run(main)


def test_not_more_ports_are_looked_at_than_a_report_has_time_for(tmp_path, monkeypatch):
    async def main():
        async with world(tmp_path, topology="line:4") as api:
            for host in ("h1", "h2", "h3"):
                await api.advertise("true", host=host)
            state = api.app.state.service.state
            subscription = state.registrations[(await api.subscribe(host="h4"))["id"]]
            cells = state.rules.admissions.cells_of("h1")
            assert len(entry_ports(state, subscription)) == 3
            module = "pleroma.service.http.forgery.forged_reports"
            monkeypatch.setattr(f"{module}.MAX_EXAMINED_CELLS", 2 * cells)
            assert entry_ports(state, subscription) == ("R1 port 1 (h1)", "R2 port 1 (h2)", "others")
            monkeypatch.setattr(f"{module}.MAX_SUSPECTED_PORTS", 1)
            assert entry_ports(state, subscription) == ("R1 port 1 (h1)", "others")

    run(main)
