"""An in-band server whose application answers with what it was asked, behind a network that loses packets."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from pleroma.client.inband.conversation import Conversation
from pleroma.control import CreateSchema
from pleroma.routing import Topology
from pleroma.service.inband.host_admission import HostAdmission
from pleroma.service.inband.inband_limits import InbandLimits
from pleroma.service.inband.inband_server import InbandServer
from pleroma.service.inband.switch_carrier import SwitchCarrier
from pleroma.switches.openflow.openflow_network import Arrival
from pleroma.wire.api_call import ApiRequest, ApiResponse
from support.control_cases import ANN, BEN, LINE, TRAFFIC, WEATHER, state_after
from support.inband_pipes import LossyNetwork, controller_of


class Echo:
    """An application that answers with the body it was sent, and as many bytes as the query says; it counts paths."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.scopes: list[Scope] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = (await receive())["body"]
        self.scopes.append(scope)
        self.asked[scope["path"]] += 1
        await asyncio.sleep(0.001)
        size = int(scope["query_string"] or b"0")
        said = body + random.Random(1).randbytes(size)
        await send({"type": "http.response.start", "status": 207, "headers": [(b"ETag", b'"7"'), (b"X-No", b"1")]})
        await send({"type": "http.response.body", "body": said})


def echoing(
    network: LossyNetwork,
    *,
    topology: Topology = LINE,
    app: ASGIApp | None = None,
    joins: bool = False,
    clock: Callable[[], float] = time.monotonic,
    **limits: Any,
) -> InbandServer[Arrival]:
    """A server behind the network, with two principals."""
    state = state_after(CreateSchema(WEATHER), CreateSchema(TRAFFIC), ANN, BEN, topology=topology)
    controller = controller_of(state)
    server = network.server = InbandServer(
        app or Echo(),
        controller,
        SwitchCarrier(network.send),
        HostAdmission(controller, may_join=lambda _: joins),
        limits=InbandLimits(**({"datagrams_per_s": 1e6} | limits)),
        clock=clock,
    )
    return server


async def asked(
    conversation: Conversation, path: str = "/", body: bytes = b"", method: str = "POST", seconds: float = 20
) -> ApiResponse:
    async with asyncio.timeout(seconds):
        return await conversation.ask(ApiRequest(method, path, (), body))
