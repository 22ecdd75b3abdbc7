"""Who may do what: tokens, roles, and what a principal sees."""

from pleroma.service import ServiceSettings
from pleroma.service.http.gate import OPEN_PATHS
from support.service.in_process import ADMIN, Api, world
from support.waiting import run

ADMIN_ONLY = [
    ("POST", "/v1/schemas", {"schema": {"name": "x", "attribute": [{"name": "a", "kind": "text"}]}}),
    ("PUT", "/v1/schemas/stock/plan", {"index": {"kind": "grid", "order": [0]}}),
    ("POST", "/v1/schemas/stock/plan/rollback", {}),
    ("GET", "/v1/principals", None),
    ("POST", "/v1/principals", {"name": "eve", "role": "admin"}),
    ("GET", "/v1/principals/admin", None),
    ("DELETE", "/v1/principals/admin", None),
    ("PATCH", "/v1/principals/ann", {"role": "admin"}),
    ("POST", "/v1/principals/ann/token", {}),
    ("GET", "/v1/groups", None),
    ("POST", "/v1/groups", {"name": "all", "read": {"*": "true"}}),
    ("GET", "/v1/groups/all", None),
    ("PATCH", "/v1/groups/all", {"read": {"*": "true"}}),
    ("DELETE", "/v1/groups/all", None),
    ("GET", "/v1/switches/R1/flows", None),
    ("GET", "/v1/trace?schema=stock&event=%7B%7D", None),
]


def operations(app):
    for path, methods in app.openapi()["paths"].items():
        for method in methods:
            yield method.upper(), path.replace("{id}", "s9").replace("{", "").replace("}", "")


def test_everything_but_what_is_open_needs_a_token(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            nobody, stranger = api.as_(None), api.as_("plr_wrong")
            seen = 0
            for method, path in operations(api.app):
                for who in (nobody, stranger):
                    if path in OPEN_PATHS:
                        assert (await who(method, path)).status_code in (200, 204)
                    else:
                        error = await who.error(method, path, 401, "not_authenticated")
                        assert error["value"] is None
                        seen += 1
            assert seen > 40
            await nobody.error("GET", "/v1/nothing", 401, "not_authenticated")
            await api.error("GET", "/v1/nothing", 404, "not_found")
            answer = await nobody("GET", "/v1/hosts")
            assert answer.headers["www-authenticate"] == "Bearer"

    run(main)


def test_a_header_that_is_not_quite_right_is_refused(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            who = api.as_(None)
            for header in (
                "",
                "Bearer",
                "Bearer ",
                ADMIN,
                f"Basic {ADMIN}",
                f"Bearer {ADMIN}x",
                f"Bearer {ADMIN[:-1]}",
                "Bearer " + "x" * 5000,
            ):
                error = await who.error("GET", "/v1/hosts", 401, "not_authenticated", headers={"Authorization": header})
                assert ADMIN not in str(error)

    run(main)


def test_the_scheme_may_be_written_small(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            await api.as_(None)("GET", "/v1/hosts", 200, headers={"Authorization": f"bearer {ADMIN}"})

    run(main)


def test_a_removed_principal_is_out_at_once_and_its_registrations_are_gone(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            ann = await api.principal("ann", read={"*": "true"})
            bob = await api.principal("bob", read={"*": "true"})
            await bob.subscribe()
            await api("DELETE", "/v1/principals/bob", 204)
            await bob.error("GET", "/v1/subscriptions", 401, "not_authenticated")
            assert (await api.get("/v1/subscriptions"))["items"] == []
            await api.error("DELETE", "/v1/principals/bob", 404, "not_found")
            await ann.subscribe()
            await api("DELETE", "/v1/principals/ann", 204)
            again = await api.principal("ann", read={"*": "true"})
            await ann.error("GET", "/v1/subscriptions", 401, "not_authenticated")  # by name she is back, by token not
            await again.subscribe()

    run(main)


def test_what_is_for_administrators_is_refused_to_others(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            ann = await api.principal("ann", publish={"*": "true"}, read={"*": "true"})
            position = (await api.get("/health"))["position"]
            for method, path, body in ADMIN_ONLY:
                error = await ann.error(method, path, 403, "not_allowed", json=body)
                assert (error["field"], error["value"], error["allowed"]) == ("role", "both", "admin")
            assert (await api.get("/health"))["position"] == position

    run(main)


def test_a_principal_sees_and_withdraws_only_its_own(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            ann = await api.principal("ann", publish={"*": "true"}, read={"*": "true"})
            bob = await api.principal("bob", publish={"*": "true"}, read={"*": "true"})
            for kind, make in (("subscriptions", Api.subscribe), ("advertisements", Api.advertise)):
                hers, his = await make(ann), await make(bob)
                for each in (hers, his):
                    for only_of_one in ("share", "event_key"):
                        each.pop(only_of_one, None)
                assert (await ann.get(f"/v1/{kind}"))["items"] == [hers]
                assert (await ann.get(f"/v1/{kind}?principal=bob"))["items"] == []
                assert (await api.get(f"/v1/{kind}"))["items"] == [hers, his]
                await ann.error("GET", f"/v1/{kind}/{his['id']}", 404, "not_found")
                await ann.error("DELETE", f"/v1/{kind}/{his['id']}", 404, "not_found")
                await ann("DELETE", f"/v1/{kind}/{hers['id']}", 204)
                await api("DELETE", f"/v1/{kind}/{his['id']}", 204)

    run(main)


def test_roles_and_filters_bound_what_may_be_registered(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            ann = await api.principal("ann", "both", publish={"stock": "volume < 10"}, read={"stock": "price >= 50"})
            await ann.subscribe("price > 60")
            await ann.advertise("volume < 5")
            body = {"schema": "stock", "filter": "price > 40", "host": "h1"}
            error = await ann.error("POST", "/v1/subscriptions", 403, "not_allowed", json=body)
            assert (error["field"], error["value"], error["allowed"]) == ("filter", "price > 40", "price >= 50")
            await ann.error("POST", "/v1/advertisements", 403, "not_allowed", json=body)
            publisher = await api.principal("pub", "publisher", publish={"*": "true"}, read={"*": "true"})
            error = await publisher.error("POST", "/v1/subscriptions", 403, "not_allowed", json=body)
            assert error["field"] == "role"
            await publisher.advertise()
            reader = await api.principal("sub", "subscriber", publish={"*": "true"}, read={"*": "true"})
            await reader.error("POST", "/v1/advertisements", 403, "not_allowed", json=body)
            nothing = await api.principal("nix", "both")
            error = await nothing.error("POST", "/v1/subscriptions", 403, "not_allowed", json=body)
            assert (error["field"], error["allowed"]) == ("schema", "nothing")

    run(main)


def test_a_principal_has_as_many_subscriptions_as_it_may(tmp_path):
    async def main():
        settings = ServiceSettings(max_subscriptions=3)
        async with world(tmp_path, settings=settings) as api:
            body = {"schema": "stock", "filter": "true", "host": "h1"}
            for name, more, most in (
                ("ann", {}, 3),
                ("bob", {"subscriptions": 1}, 1),
                ("cid", {"subscriptions": 0}, 0),
            ):
                who = await api.principal(name, read={"*": "true"}, **more)
                made = [await who.subscribe() for _ in range(most)]
                error = await who.error("POST", "/v1/subscriptions", 403, "limit_reached", json=body)
                assert error["field"] == "subscriptions"
                if made:
                    await who("DELETE", f"/v1/subscriptions/{made[0]['id']}", 204)
                    await who.subscribe()

    run(main)


def test_a_token_is_shown_once_and_stored_hashed(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            made = await api.post("/v1/principals", {"name": "ann", "role": "subscriber", "read": {"*": "true"}})
            listed = await api.get("/v1/principals")
            assert [each["name"] for each in listed["items"]] == ["admin", "ann"]
            assert listed["items"][1] == await api.get("/v1/principals/ann")
            assert listed["items"][1]["read"] == {"*": "true"}
            for text in (str(listed), str(await api.get("/v1/statistics"))):
                assert made["token"] not in text
                assert "digest" not in text
            return made["token"]

    token = run(main)
    assert len(token) > 40
    for file in tmp_path.iterdir():
        assert token.encode() not in file.read_bytes()


def test_bad_principals_are_refused(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            for change, status, field in (
                ({"name": "admin"}, 409, "name"),
                ({"name": "a b"}, 400, "name"),
                ({"name": "ann\n"}, 400, "name"),
                ({"role": "king"}, 400, "role"),
                ({"subscriptions": -1}, 400, "subscriptions"),
                ({"token": "mine"}, 400, "token"),
                ({"read": {"nix": "true"}}, 400, None),
                ({"read": {"stock": "prise > 1"}}, 400, None),
                ({"read": {"*": "price > 1"}}, 400, None),
            ):
                body = {"name": "ann", "role": "both"} | change
                error = (await api("POST", "/v1/principals", status, json=body)).json()["error"]
                assert field in (None, error["field"]), error
            assert len((await api.get("/v1/principals"))["items"]) == 1

    run(main)


def test_an_administrator_cannot_shut_itself_out(tmp_path):
    async def main():
        async with world(tmp_path) as api:
            await api.error("DELETE", "/v1/principals/admin", 403, "not_allowed")
            other = await api.principal("root2", "admin")
            await other("DELETE", "/v1/principals/admin", 204)
            await api.error("GET", "/v1/hosts", 401, "not_authenticated")

    run(main)
