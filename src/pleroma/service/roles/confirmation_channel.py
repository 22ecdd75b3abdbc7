"""How gates learn what switches have confirmed: one connection of each gate to the process that leads.

A line of JSON asks: a number, the position of a command in the log, the registration that its answer is about, the
epoch of the plan, and how many seconds to wait. A line answers: the number, and null or the error. Both ends first
prove that they know a secret of the log; nothing else than numbers and errors passes here.
"""

from __future__ import annotations

import asyncio
import hmac
import itertools
import json
import secrets
from contextlib import suppress
from typing import Any, Protocol, Self, cast

import structlog

from pleroma.control.kept_answers import error_from_json, error_to_json
from pleroma.control.log.durable_log import Position
from pleroma.control.log.etcd.etcd_log import EtcdLog
from pleroma.control.state.command import Lead
from pleroma.errors import NotInstalled, NotLeading, PleromaError

GREETING_SECONDS = 5.0
MAX_UNPROVED_CONNECTIONS = 64
"""Connections that have not yet proved anything. If there are more, the oldest is cut."""
ANSWER_GRACE_SECONDS = 1.0
"""So much longer than the leading process a gate waits: it is that one which can tell which switch is late."""
RECONNECT_SECONDS = 0.2
UNBOUNDED_PATIENCE_SECONDS = 3600.0
GATE_SECRET_BYTES = 32
_NONCE_BYTES = 16
_MAX_LINE_BYTES = 2**16

log = structlog.get_logger("pleroma.service")


def gate_secret(log: EtcdLog) -> bytes:
    """What gates and the leading process know, and nobody else."""
    return log.shared_secret("gates", lambda: secrets.token_bytes(GATE_SECRET_BYTES))


class Confirming(Protocol):
    """A controller that tells switches."""

    async def in_force(self, position: Position, id: str | None, epoch: int | None, patience: float) -> None: ...


class ConfirmationServer:
    """The end of the process that leads. Use it as `async with`."""

    def __init__(self, controller: Confirming, secret: bytes, listening: Any) -> None:
        """`listening` is a bound socket."""
        self._controller = controller
        self._secret = secret
        self._listening = listening
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._strangers: dict[asyncio.Task[None], None] = {}
        """Those of the connections that have proved nothing, the oldest first."""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, sock=self._listening, limit=_MAX_LINE_BYTES)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None  # noqa: S101 (it was entered)
        self._server.close()
        for each in self._connections:
            each.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer), name="confirmations")
        self._connections.add(task)
        self._strangers[task] = None
        task.add_done_callback(self._forget)
        if len(self._strangers) > MAX_UNPROVED_CONNECTIONS:
            oldest = next(iter(self._strangers))
            del self._strangers[oldest]
            oldest.cancel()

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._connections.discard(task)
        self._strangers.pop(task, None)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        waiting: set[asyncio.Task[None]] = set()
        try:
            if not await _greet(reader, writer, self._secret, b"lead"):
                return
            self._strangers.pop(cast(asyncio.Task[None], asyncio.current_task()), None)
            while line := await reader.readline():
                task = asyncio.get_running_loop().create_task(self._answer(writer, *json.loads(line)))
                waiting.add(task)
                task.add_done_callback(waiting.discard)
        except (OSError, ValueError, TypeError, asyncio.LimitOverrunError, TimeoutError) as error:
            log.info("a gate is gone", reason=str(error))
        finally:
            for each in waiting:
                each.cancel()
            writer.close()

    async def _answer(
        self,
        writer: asyncio.StreamWriter,
        number: int,
        position: int,
        id: str | None,
        epoch: int | None,
        seconds: float,
    ) -> None:
        try:
            async with asyncio.timeout(seconds + ANSWER_GRACE_SECONDS / 2):
                await self._controller.in_force(Position(position), id, epoch, seconds)
            error = None
        except TimeoutError:
            reason = "the request is durable, but the leading process has not come to it"
            error = error_to_json(NotInstalled(reason, field="position", value=position))
        except NotLeading:
            writer.close()  # the gate asks the next one
            return
        except PleromaError as failure:
            error = error_to_json(failure)
        writer.write(json.dumps([number, error]).encode() + b"\n")


class ConfirmationLink:
    """The end of a gate. It follows the lead that it is told of, and connects when there is something to ask."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._lead: Lead | None = None
        self._numbers = itertools.count()
        self._asked: dict[int, tuple[list[Any], asyncio.Future[None]]] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._task: asyncio.Task[None] | None = None

    def follow(self, lead: Lead | None) -> None:
        """Ask this process from now on; questions that wait go to it, too."""
        if lead != self._lead:
            self._lead = lead
            if self._task is not None:
                self._task.cancel()
                self._task = None
            self._connect()

    async def in_force(self, position: Position, id: str | None, epoch: int | None, patience: float | None) -> None:
        number = next(self._numbers)
        seconds = UNBOUNDED_PATIENCE_SECONDS if patience is None else patience
        question = [number, position, id, epoch, seconds]
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._asked[number] = question, future
        try:
            if self._writer is None:
                self._connect()
            else:
                self._send(question)
            async with asyncio.timeout(seconds + ANSWER_GRACE_SECONDS):
                await future
        except TimeoutError:
            lead = "no process leads at the moment" if self._lead is None else f"{self._lead.holder} does not answer"
            reason = f"the request is durable, but nobody has told the switches: {lead}"
            raise NotInstalled(reason, field="position", value=position) from None
        finally:
            del self._asked[number]

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def _connect(self) -> None:
        if self._lead is not None and self._asked and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._run(self._lead), name="confirmations")

    def _send(self, question: list[Any]) -> None:
        assert self._writer is not None  # noqa: S101 (the caller has looked)
        self._writer.write(json.dumps(question).encode() + b"\n")

    async def _run(self, lead: Lead) -> None:
        """Ask the lead for as long as it is the lead; what is not answered when a connection ends is asked again."""
        while self._asked:
            try:
                await self._ask(lead)
            except (OSError, ValueError, TypeError, TimeoutError) as error:
                log.info("the leading process cannot be asked", holder=lead.holder, reason=str(error))
            await asyncio.sleep(RECONNECT_SECONDS)

    async def _ask(self, lead: Lead) -> None:
        reader, writer = await asyncio.wait_for(asyncio.open_connection(*lead.confirming), GREETING_SECONDS)
        try:
            if not await _greet(reader, writer, self._secret, b"gate"):
                raise OSError("it does not know the secret of this log")
            self._writer = writer
            for question, _ in list(self._asked.values()):
                self._send(question)
            while line := await reader.readline():
                number, error = json.loads(line)
                _, future = self._asked.get(number, (None, None))
                if future is not None and not future.done():
                    future.set_result(None) if error is None else future.set_exception(error_from_json(error))
        finally:
            self._writer = None
            writer.close()


async def _greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, secret: bytes, own: bytes) -> bool:
    """Prove to know the secret, and whether the other end does: each signs the nonce of the other."""
    other = b"gate" if own == b"lead" else b"lead"
    nonce = secrets.token_bytes(_NONCE_BYTES)
    writer.write(nonce.hex().encode() + b"\n")
    async with asyncio.timeout(GREETING_SECONDS):
        theirs = await reader.readline()
        writer.write(_proof(secret, own, theirs.strip()) + b"\n")
        return hmac.compare_digest((await reader.readline()).strip(), _proof(secret, other, nonce.hex().encode()))


def _proof(secret: bytes, role: bytes, nonce: bytes) -> bytes:
    return hmac.digest(secret, role + b" " + nonce, "sha256").hex().encode()
