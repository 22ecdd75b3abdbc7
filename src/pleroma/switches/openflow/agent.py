"""Keeps the rules of one switch as they are wanted, whatever happens to the switch and to the connection.

An agent knows which rules are wanted and which the switch has confirmed, and sends the difference: a bundle and a
barrier, after which the rules are in force (Bhowmik et al. 2017, IV-B). When an answer does not come, it is unknown
which rules the switch has; the agent then reads the switch's tables and goes on from there. A new connection, a
restarted controller and an audit for rules that somebody changed by hand are handled alike: read, compare, send what is
missing. So messages that were lost or repeated make no difference. A switch that lacks what it had confirmed is not
believed: until an audit finds everything in place, its tables are read after every change, before anybody is told that
the change is in force.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, Protocol

from pleroma.background import in_background
from pleroma.errors import SwitchError, SwitchFenced, SwitchGone, SwitchRefused, SwitchSilent
from pleroma.routing import Change, SwitchId
from pleroma.switches.openflow.change_order import MAX_BUNDLE_CHANGES, bundles
from pleroma.switches.openflow.rule import CountedRule, Key, Rule, RuleChange
from pleroma.switches.openflow.tables import COOKIE, COOKIE_MASK, FORWARDING
from pleroma.switches.switch_status import SwitchState, UpkeepCounts

TABLE_FULL = ("OFPET_FLOW_MOD_FAILED", "OFPFMFC_TABLE_FULL")

_GROWTH = {Change.ADD: 1, Change.MODIFY: 0, Change.DELETE: -1}

State = Literal["away", "reading", "ready"]


@dataclass(frozen=True, slots=True)
class SwitchTimeouts:
    """All in seconds. `answer` is for the answer to a bundle or a question; every `audit` the tables are read.

    A connection that is silent for `dead` is closed; a switch without a connection counts as gone after `grace`.
    """

    answer: float = 5.0
    audit: float = 30.0
    grace: float = 5.0
    dead: float = 6.0


class SwitchConnection(Protocol):
    """The part of a connection that an agent uses."""

    async def commit(self, changes: Sequence[RuleChange], timeout: float) -> None: ...

    async def flows(
        self, cookie: int, cookie_mask: int, table: int | None, timeout: float
    ) -> list[CountedRule | None]: ...

    async def wipe(self, cookie: int, cookie_mask: int, timeout: float) -> None: ...

    def close(self) -> None: ...


class Agent:
    """Keeps one switch right. Calls `on_change` when `state` changes, and when the switch has no room for a rule."""

    def __init__(self, name: SwitchId, timeouts: SwitchTimeouts, on_change: Callable[[Agent], None]) -> None:
        self.name = name
        self.state: State = "away"
        self.gone = False
        """The switch has been away for longer than the grace period: nobody waits for it any more."""
        self.wanted: dict[Key, Rule] = {}
        self.refused: dict[Key, SwitchRefused] = {}
        self.counts = UpkeepCounts()
        self.room: int | None = None
        """How many rules the forwarding table has room for, once the switch has refused one for want of room."""
        self._known: dict[Key, Rule] | None = None
        """The rules that the switch has; None while that is unknown."""
        self._base: dict[Key, Rule] = {}
        self._doubted = False
        """The last audit found that the switch lacked rules which it had confirmed."""
        self._tight = False
        """The switch was full once. From then on only the outcome of changes has to fit (see `bundles`)."""
        self._timeouts = timeouts
        self._on_change = on_change
        self._dirty: set[Key] = set()
        self._version = 0
        self._confirmed = 0
        self._waiting: list[asyncio.Future[None]] = []
        self._work = asyncio.Event()
        self._connection: SwitchConnection | None = None
        self._task: asyncio.Task[None] | None = None
        self._fenced: SwitchFenced | None = None

    def want(self, changes: Iterable[tuple[Key, Rule | None]]) -> None:
        """Want this rule at each key from now on, or no rule (None)."""
        for key, rule in changes:
            if rule is None:
                self.wanted.pop(key, None)
            else:
                self.wanted[key] = rule
            self._dirty.add(key)
            self.refused.pop(key, None)
        # what was refused for want of room may fit now
        self.refused = {key: error for key, error in self.refused.items() if not _is_full(error)}
        self._version += 1
        self._work.set()

    def set_base_rules(self, rules: Mapping[Key, Rule]) -> None:
        """Rules that the switch keeps regardless of demands; replaces the previous set."""
        if rules != self._base:
            gone = self._base.keys() - rules.keys()
            self._base = dict(rules)
            self.want([*rules.items(), *((key, None) for key in gone)])

    async def confirmed(self) -> None:
        """Wait until all that is wanted now is in force, or the switch counts as gone. Raises what it refuses."""
        if self._fenced is not None:
            raise self._fenced
        if self.gone:
            return
        if self._confirmed >= self._version and not self.refused:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        await future

    @property
    def known(self) -> Mapping[Key, Rule] | None:
        """The rules that the switch has confirmed; None while it is not known which it has."""
        return self._known

    @property
    def standing(self) -> SwitchState:
        return "gone" if self.gone else self.state

    @property
    def refusal_reasons(self) -> tuple[str, ...]:
        """Why the switch did not take rules that are wanted, each reason once."""
        return tuple(sorted({str(error) for error in self.refused.values()}))

    @property
    def is_full(self) -> bool:
        """Whether the switch has refused a rule of the forwarding table for want of room."""
        return any(key[0] == FORWARDING and _is_full(error) for key, error in self.refused.items())

    def connected(self, connection: SwitchConnection) -> None:
        """The switch has connected. Its old connection, if there is one, has not been seen to end."""
        self._drop_connection()
        self._connection = connection
        self.gone = False
        self._task = asyncio.get_running_loop().create_task(self._serve(connection), name=f"agent {self.name}")

    def disconnected(self, connection: SwitchConnection) -> None:
        if connection is self._connection:
            self._drop_connection()
            self._become("away")

    def give_up(self) -> None:
        """Count the switch as gone: nobody waits for it any more. When it returns, it gets what is wanted then."""
        self.gone = True
        self._resolve_waiters(None)

    def fence(self, error: SwitchFenced) -> None:
        """Nothing is in force any more because this agent says so: who waits, or asks later, gets the error."""
        self._fenced = error
        self._resolve_waiters(error)

    def close(self) -> None:
        self._drop_connection()
        self._resolve_waiters(SwitchGone("the controller is closing", field="switch", value=self.name))

    def _drop_connection(self) -> None:
        connection, self._connection = self._connection, None
        task, self._task = self._task, None
        self._known = None
        self._confirmed = -1  # the next connection has to show what the switch has
        if task is not None and task is not asyncio.current_task():
            task.cancel()
        if connection is not None:
            connection.close()

    async def _serve(self, connection: SwitchConnection) -> None:
        try:
            while True:
                known = await self._read(connection)
                audit = asyncio.get_running_loop().time() + self._timeouts.audit
                try:
                    await self._send(connection, known)
                    while await self._more_before(audit):
                        await self._send(connection, known)
                except SwitchSilent:
                    self.counts.silent += 1
                    self._known = None
        except SwitchError:  # gone, or silent even about its tables: the next connection starts anew
            self.disconnected(connection)

    async def _read(self, connection: SwitchConnection) -> dict[Key, Rule]:
        """Read the rules that the switch has. If they were known before, this is an audit."""
        before = self._known
        if before is None:
            self._become("reading")
        entries = await connection.flows(COOKIE, COOKIE_MASK, None, self._timeouts.answer)
        self.counts.read += 1
        if None in entries:  # a rule with our cookie that no agent sends: delete it, and all others with it
            await connection.wipe(COOKIE, COOKIE_MASK, self._timeouts.answer)
            entries = []
        known = {entry.rule.key: entry.rule for entry in entries if entry is not None}
        self._dirty.update(key for key in known.keys() | self.wanted.keys() if known.get(key) != self.wanted.get(key))
        if before is not None:
            self.counts.repaired += sum(known.get(key) != before.get(key) for key in known.keys() | before.keys())
            lacks = any(known.get(key) != rule for key, rule in before.items())
            self._doubted = lacks or (self._doubted and bool(self.refused))
        self.refused.clear()  # it may have room now
        self._known = known
        return known

    async def _send(self, connection: SwitchConnection, known: dict[Key, Rule]) -> None:
        """Send the difference between known and wanted, until only what the switch refuses is left of it."""
        while keys := self._dirty - self.refused.keys():
            self._dirty -= keys
            if len(keys) > MAX_BUNDLE_CHANGES:
                parts = await in_background(bundles, known, dict(self.wanted), keys, tight=self._tight)
            else:
                parts = bundles(known, self.wanted, keys, tight=self._tight)
            for number, part in enumerate(parts):
                try:
                    await connection.commit(part, self._timeouts.answer)
                except SwitchRefused as refusal:  # the whole bundle is void
                    self._dirty.update(rule.key for later in parts[number:] for _, rule in later)
                    self.counts.refusals += 1
                    if _is_full(refusal) and not self._tight:
                        self._tight = True
                    else:
                        self._refuse(part, refusal)
                    break
                self._apply_to_known(part, known)
                if self._doubted:
                    await self._check(connection, part, known)
        self._become("ready")
        if self.refused:
            self._resolve_waiters(next(iter(self.refused.values())))
        else:
            self._confirmed = self._version
            self._resolve_waiters(None)

    async def _check(self, connection: SwitchConnection, part: Sequence[RuleChange], known: dict[Key, Rule]) -> None:
        """Read back what a doubted switch has confirmed. Rules that it does not have count as refused by it."""
        entries = await connection.flows(COOKIE, COOKIE_MASK, None, self._timeouts.answer)
        self.counts.read += 1
        there = {entry.rule.key: entry.rule for entry in entries if entry is not None}
        for key in {rule.key for _, rule in part}:
            if there.get(key) != known.get(key):
                reason = f"{self.name} confirmed a change that it did not make"
                self.refused[key] = SwitchRefused(reason, kind="", code="", value=self.name)
                self._dirty.add(key)
                if key in there:
                    known[key] = there[key]
                else:
                    known.pop(key, None)

    def _apply_to_known(self, changes: Sequence[RuleChange], known: dict[Key, Rule]) -> None:
        self.counts.changed += len(changes)
        for change, rule in changes:
            if change is Change.DELETE:
                del known[rule.key]
            else:
                known[rule.key] = rule

    def _refuse(self, part: Sequence[RuleChange], refusal: SwitchRefused) -> None:
        """Leave out the rules that the switch does not take, so that the others can be sent."""
        if _is_full(refusal):
            self.room = max(self._held_after(part[: refusal.index or 0]), 1)
        if refusal.index is not None and not _is_full(refusal):
            guilty = [part[refusal.index][1]]
        else:
            guilty = [rule for change, rule in part if change is Change.ADD] or [rule for _, rule in part]
        self.refused.update({rule.key: refusal for rule in guilty})
        self._on_change(self)

    def _held_after(self, changes: Sequence[RuleChange]) -> int:
        """How many rules the forwarding table would hold after these changes."""
        held = sum(key[0] == FORWARDING for key in self._known or ())
        return held + sum(_GROWTH[change] for change, rule in changes if rule.table == FORWARDING)

    async def _more_before(self, audit: float) -> bool:
        """Wait until there are changes to send; False when the next audit is due first."""
        with suppress(TimeoutError):
            async with asyncio.timeout_at(audit):
                await self._work.wait()
        self._work.clear()
        return asyncio.get_running_loop().time() < audit

    def _become(self, state: State) -> None:
        if state != self.state:
            self.state = state
            self._on_change(self)

    def _resolve_waiters(self, error: SwitchError | None) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if future.done():
                continue
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)


def _is_full(refusal: SwitchRefused) -> bool:
    return (refusal.kind, refusal.code) == TABLE_FULL
