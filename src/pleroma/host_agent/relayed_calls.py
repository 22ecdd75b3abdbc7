"""Requests that pass through the agent, and what it learns from their answers: which program may have which events.

The controller alone decides. Where it has attached a program, told it of a registration or renewed its lease, the agent
goes by the answer before the program has it. So the agent needs no token of its own, and after it was restarted it
learns everything again from the programs, which look for their registrations when they come back.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any
from urllib.parse import parse_qs, quote, unquote

from pleroma.client.links.network_link import HostAttachment
from pleroma.client.session.registration import publisher_seal, schema_seals
from pleroma.client.session.schema_channel import SchemaChannel
from pleroma.content import Filter
from pleroma.errors import ClientError, ControllerAway, LimitReached, PleromaError
from pleroma.host_agent.controller_calls import ProgramCalls
from pleroma.host_agent.local_exchange import LocalExchange
from pleroma.host_agent.local_programs import Credentials, LocalAdvertisement, LocalProgram, LocalPrograms
from pleroma.host_agent.unix_sockets import LocalUser
from pleroma.wire.api_call import ApiRequest, ApiResponse

AGENT_PATH = "/agent"
"""At which the agent itself answers, to whoever may use its socket."""
FRESH_PLAN_SECONDS = 1.5
"""How long other programs are told that a plan has not changed, after the controller said so to one."""
AWAY_SECONDS = 5.0
"""A controller that has answered nobody for so long counts as away. Every program asks more often than that."""
MAX_LEARNED_AGAIN = 100
"""Registrations that are looked up at a renewal; others wait for the next."""
MAX_INLINE_FILTER_CHARACTERS = 2_000
"""Longer filters are read beside the event loop."""

_ATTACHMENTS = re.compile("/v1/hosts/[^/]+/attachments")
_REGISTRATIONS = re.compile("/v1/(advertisements|subscriptions)(?:/([^/]+))?")
_BATCHES = re.compile("/v1/(advertisements|subscriptions):[a-z]+")
_LEASE = re.compile("/v1/leases/([^/]+)")
_PLAN = re.compile("/v1/schemas/([^/]+)/plan")
_STREAM = "/v1/stream"

log = logging.getLogger("pleroma.agent")


class RelayedCalls:
    """`clock` is that of the programs: seconds that only go forward."""

    def __init__(
        self, calls: ProgramCalls, programs: LocalPrograms, exchange: LocalExchange, clock: Callable[[], float]
    ) -> None:
        self._calls = calls
        self._programs = programs
        self._exchange = exchange
        self._clock = clock
        self._fresh: dict[str, float] = {}
        """By the name of a schema: until when the plan that is known here counts as the one in force."""
        self._answered = clock()
        """When the controller last answered any program."""

    async def answer(self, request: ApiRequest, who: Credentials, user: LocalUser) -> ApiResponse:
        """The answer to a request of a program that runs as this user."""
        path, _, query = request.path.partition("?")
        try:
            if path == AGENT_PATH:
                return _json(200, self._condition())
            if path == _STREAM:
                return problem(400, "bad_request", "an agent relays no streams: ask now and then")
            if _BATCHES.fullmatch(path):
                return problem(404, "not_found", "an agent takes no batches: register one by one")
            if found := _LEASE.fullmatch(path):
                return await self._lease(request, who, unquote(found[1]))
            plan = _PLAN.fullmatch(path)
            if plan is not None and self._is_fresh(request, unquote(plan[1])):
                return ApiResponse(304)
            answer = await self._ask(request, who)
            if _ATTACHMENTS.fullmatch(path) and answer.status == 201:
                return self._attached(answer, who, parse_qs(query).get("lease", [""])[0], user)
            if found := _REGISTRATIONS.fullmatch(path):
                await self._registration(request.method, found[1], found[2], answer, who)
            elif plan is not None and answer.status in (200, 304):
                await self._plan(unquote(plan[1]), request, answer)
            return answer
        except ControllerAway as away:
            return problem(502, "controller_away", away.reason)
        except LimitReached as limit:
            return problem(503, "limit_reached", limit.reason)
        except ClientError as error:
            return problem(400 if error.field == "principal" else 503, "agent_refused", str(error))
        except (PleromaError, ValueError, KeyError, TypeError) as error:
            log.warning("an answer of the controller cannot be used: %r", error)
            return problem(502, "bad_answer", f"the agent cannot use the controller's answer: {error}")

    async def read_plan(self, name: str) -> None:
        """Read the plan of a schema again, with the rights of a program that is subscribed to it."""
        self._fresh.pop(name, None)
        for program in self._programs:
            if any(each.filter.schema.name == name for each in program.subscriptions.values()):
                await self._read_channel(name, program.who)
                return

    def expire(self) -> None:
        """Drop programs that did not connect, registrations of those that renew nothing, and unused schemas."""
        now = self._clock()
        self._programs.expire(now)
        used: set[str] = set()
        for program in self._programs:
            if lapsed := program.lapsed(now):
                log.warning("the controller confirms %d registrations of a program no more: they end here", len(lapsed))
                self._exchange.withdraw(program, lapsed)
            used.update(each.filter.schema.name for each in program.subscriptions.values())
            used.update(each.schema for each in program.advertisements.values())
        self._exchange.forget_unused(used)
        self._fresh = {name: end for name, end in self._fresh.items() if end > now}

    def _condition(self) -> dict[str, Any]:
        there = self._exchange.attachment
        return {
            "host": there.host if there else None,
            "programs": len(self._programs),
            "subscriptions": sum(len(each.subscriptions) for each in self._programs),
            "advertisements": sum(len(each.advertisements) for each in self._programs),
            "socket": asdict(self._exchange.schemas.info) | {"overrun": self._exchange.overrun},
            "events": asdict(self._exchange.counters),
        }

    def _attached(self, answer: ApiResponse, who: Credentials, lease: str, user: LocalUser) -> ApiResponse:
        """Attach a program here, where the controller has let it use its host's own network."""
        told: dict[str, Any] = json.loads(answer.body)
        if told.get("network") != "native":  # a tunnel leads to the controller, and needs no port of this machine
            return _json(answer.status, told | {"udp_host": told.get("udp_host") or self._calls.host})
        attachment = HostAttachment.from_json(told)
        there = self._exchange.attachment
        is_elsewhere = there is not None and there.host != attachment.host and there.where != attachment.where
        if there is not None and is_elsewhere and len(self._programs):
            raise ClientError(f"programs here are at host {there.host!r}", field="host", value=attachment.host)
        self._exchange.use(attachment)
        program = LocalProgram(who, lease, attachment.host, user.uid, self._clock() + attachment.seconds)
        program.overrun_before = self._exchange.overrun
        self._programs.admit(program)
        return _json(answer.status, told | {"network": "agent", "port": 0, "secret": program.secret.hex()})

    async def _registration(
        self, method: str, kind: str, id: str | None, answer: ApiResponse, who: Credentials
    ) -> None:
        if method == "DELETE" and id is not None and answer.status in (204, 404):
            for each in self._programs:
                if each.who == who:
                    self._exchange.withdraw(each, [unquote(id)])
        is_told = (method, id is None) in (("POST", True), ("GET", False)) and answer.status in (200, 201)
        told = json.loads(answer.body) if is_told else {}
        program = self._programs.find(who, told.get("lease") or "") if told else None
        if program is None or told["host"] != program.host:
            return
        await self._learn(program, kind, told)
        program.confirm(self._clock(), [told["id"]])

    async def _learn(self, program: LocalProgram, kind: str, told: Mapping[str, Any]) -> None:
        """Hand a program the events of a subscription of its, or take those of an advertisement, from now on."""
        name, text = told["schema"], told["filter"]
        channel = self._exchange.channels.get(name)
        if channel is None or channel.epoch != told.get("epoch", channel.epoch):
            channel = await self._read_channel(name, program.who)
        if len(text) > MAX_INLINE_FILTER_CHARACTERS:
            wanted = await asyncio.to_thread(Filter.parse, channel.schema, text)
        else:
            wanted = Filter.parse(channel.schema, text)
        if program not in self._programs:  # it has left meanwhile, and nothing would withdraw this any more
            return
        self._exchange.channels.setdefault(name, channel)  # it may have been out of use meanwhile
        if kind == "subscriptions":
            self._exchange.subscribe(program, told["id"], name, wanted, schema_seals(channel.schema, told))
        else:
            number, seal = int(told["publisher"]), publisher_seal(channel.schema, told)
            self._exchange.advertise(program, LocalAdvertisement(told["id"], name, number, wanted, seal))

    async def _lease(self, request: ApiRequest, who: Credentials, lease: str) -> ApiResponse:
        """Relay a renewal: what the controller does not list any more, of what was there before, is gone."""
        program = self._programs.find(who, lease)
        before = program.registered if program is not None else frozenset()
        try:
            answer = await self._ask(request, who)
        except ControllerAway:
            if program is not None:
                self._excuse(program)
            raise
        if program is None or request.method != "PUT":
            return answer
        if answer.status == 200:
            told = json.loads(answer.body)
            self._exchange.withdraw(program, before - set(told["registrations"]))
            program.confirm(self._clock(), told["registrations"], float(told["seconds"]))
            await self._learn_again(program, told["registrations"])
        elif answer.status in (401, 403, 404):
            self._exchange.withdraw(program, before)
        elif answer.status >= 500:
            self._excuse(program)
        return answer

    def _excuse(self, program: LocalProgram) -> None:
        """A program could not renew its lease. On switches events go on while the controller is away.

        It is not away if others are answered: in-band, it is silent to a token that it does not know.
        """
        if self._clock() - self._answered >= AWAY_SECONDS:
            program.confirm(self._clock(), program.registered)

    async def _learn_again(self, program: LocalProgram, ids: Iterable[str]) -> None:
        """Find out what registrations are that stand at the controller and have lapsed here."""
        for each in sorted(set(ids) - program.registered)[:MAX_LEARNED_AGAIN]:
            for kind in ("subscriptions", "advertisements"):
                answer = await self._ask(ApiRequest("GET", f"/v1/{kind}/{quote(each, safe='')}"), program.who)
                await self._registration("GET", kind, each, answer, program.who)
                if answer.status != 404:
                    break

    async def _ask(self, request: ApiRequest, who: Credentials) -> ApiResponse:
        answer = await self._calls.ask(request, who)
        if answer.status < 500:
            self._answered = self._clock()
        return answer

    def _is_fresh(self, request: ApiRequest, name: str) -> bool:
        """Whether a program asks for a change of a plan that another has just asked for in vain.

        Every program asks every few seconds, and for many together that would be more than in-band messages carry.
        """
        known = self._exchange.channels.get(name)
        asked = dict(request.headers).get("if-none-match")
        is_known = known is not None and known.etag is not None and known.etag == asked
        return is_known and request.method == "GET" and self._clock() < self._fresh.get(name, 0.0)

    async def _plan(self, name: str, request: ApiRequest, answer: ApiResponse) -> None:
        """A program has asked for the plan of a schema. If it is in use here, the agent goes by the answer too."""
        known = self._exchange.channels.get(name)
        if known is None:
            return
        if answer.status == 304:
            if dict(request.headers).get("if-none-match") != known.etag:
                return
        elif (etag := dict(answer.headers).get("etag")) != known.etag:
            self._exchange.adopt(await self._channel(answer, etag))
        self._fresh[name] = self._clock() + FRESH_PLAN_SECONDS

    async def _read_channel(self, name: str, who: Credentials) -> SchemaChannel:
        answer = await self._ask(ApiRequest("GET", f"/v1/schemas/{quote(name, safe='')}/plan"), who)
        if answer.status != 200:
            raise ControllerAway(f"the plan of {name!r} cannot be read now", field="schema")
        channel = await self._channel(answer, dict(answer.headers).get("etag"))
        self._exchange.adopt(channel)
        return channel

    async def _channel(self, answer: ApiResponse, etag: str | None) -> SchemaChannel:
        attachment = self._exchange.attachment
        if attachment is None:
            raise ControllerAway("the agent has no event socket", field="host")
        return await asyncio.to_thread(SchemaChannel.from_json, json.loads(answer.body), etag, attachment.addresses)


def problem(status: int, code: str, reason: str) -> ApiResponse:
    """An error of the agent itself, in the form that the controller's errors have."""
    return _json(status, {"error": {"code": code, "reason": reason, "field": None, "value": None}})


def _json(status: int, content: Any) -> ApiResponse:
    return ApiResponse(status, (("content-type", "application/json"),), json.dumps(content).encode())
