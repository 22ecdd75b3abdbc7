"""A network between a client and the controller that loses, repeats and delays, without any socket."""

import asyncio
import random
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from typing import Any, Protocol, TypeVar, cast

from pleroma.client.inband.conversation import Conversation
from pleroma.client.inband.transport import InbandTransport
from pleroma.control import Command, Controller, ControlState, Done, Principal
from pleroma.routing import Port, SwitchId, Topology
from pleroma.switches.openflow.frames import Datagram
from pleroma.switches.openflow.openflow_network import Arrival
from pleroma.wire.ports import CONTROL_ADDRESSES, CONTROL_PORT
from pleroma.wire.token_proof import client_key

CLIENT_PORT = 50_000
TOKEN = "a token"  # noqa: S105
T = TypeVar("T")
Received = Callable[[Any, bytes], None]


class Server(Protocol):
    def arrived(self, arrival: Arrival) -> None: ...


class LossyNetwork:
    """Pipes to a server that may be set, and exchanged, at any time."""

    def __init__(self, seed: int = 0, loss: float = 0.0, twice: float = 0.0, delay: float = 0.0) -> None:
        self.random = random.Random(seed)
        self.loss, self.twice, self.delay = loss, twice, delay
        self.server: Server | None = None
        self.up: list[tuple[SwitchId, Port, bytes]] = []
        self.down: list[bytes] = []
        self.pipes: dict[tuple[str, int], _Pipe] = {}

    def pass_on(self, deliver: Callable[[T], None], what: T) -> None:
        """Once, twice or never, now or later."""
        for _ in range(1 + (self.random.random() < self.twice)):
            if self.random.random() >= self.loss:
                asyncio.get_running_loop().call_later(self.random.uniform(0, self.delay), deliver, what)

    def send(self, switch: SwitchId, port: Port, frame: bytes) -> bool:
        """What the server sends to a place."""
        datagram = Datagram.unpack(frame)
        assert datagram is not None
        assert datagram.destination[1] == CLIENT_PORT
        assert not datagram.source[0].is_multicast
        pipe = self.pipes.get((switch, port))
        self.down.append(datagram.payload)
        if pipe is not None:
            self.pass_on(pipe.deliver, datagram.payload)
        return pipe is not None

    def opener(
        self, switch: str = "R1", port: int = 1, address: str = "fd00::1", mac: str = "02:00:00:00:00:01"
    ) -> Callable[[Received], "list[_Pipe]"]:
        """For a conversation that takes place at this port."""

        def open_pipes(received: Received) -> list[_Pipe]:
            pipe = _Pipe(self, SwitchId(switch), Port(port), address, mac, received)
            self.pipes[switch, port] = pipe
            return [pipe]

        return open_pipes

    def conversation(self, principal: str = "ann", token: str = TOKEN, host: str = "", **place: Any) -> Conversation:
        return Conversation(principal, client_key(token), host, self.opener(**place))

    def transport(self, principal: str = "ann", token: str = TOKEN, host: str = "", **place: Any) -> InbandTransport:
        return InbandTransport(self.opener(**place), principal, token, host)


class _Pipe:
    def __init__(
        self, network: LossyNetwork, switch: SwitchId, port: Port, address: str, mac: str, received: "Received"
    ) -> None:
        self.network, self.switch, self.port = network, switch, port
        self.address, self.mac = ip_address(address), mac
        self.received = received

    def frame(self, data: bytes) -> bytes:
        to = CONTROL_ADDRESSES[self.address.version], CONTROL_PORT
        return Datagram(self.mac, "33:33:00:00:70:6c", (self.address, CLIENT_PORT), to, data).pack()

    def send(self, data: bytes) -> None:
        frame = self.frame(data)
        self.network.up.append((self.switch, self.port, frame))
        if self.network.server is not None:
            self.network.pass_on(self.arrive, Arrival(self.switch, self.port, frame))

    def arrive(self, arrival: Arrival) -> None:
        if self.network.server is not None:
            self.network.server.arrived(arrival)

    def deliver(self, payload: bytes) -> None:
        self.received(self, payload)

    def close(self) -> None:
        pass


class ReducedController:
    """As much of a controller as the server needs, without a log."""

    def __init__(self, state: ControlState) -> None:
        self.state = state
        self._position = 100

    @property
    def principals(self) -> Mapping[str, Principal]:
        return self.state.principals

    @property
    def topology(self) -> Topology:
        return self.state.topology

    async def submit(self, command: Command) -> Done:
        self._position += 1
        result = self.state.apply(self._position, command)
        if not isinstance(result, Done):
            raise result.error
        return result


def controller_of(state: ControlState) -> Controller:
    return cast(Controller, ReducedController(state))
