"""A transport of httpx that carries requests in a conversation of datagrams; so the API client sends them as over HTTP.

`inband://` and `udp://` addresses have it carry their requests. Streams cannot be carried.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import httpx

from pleroma.client.inband.conversation import Conversation, Pipe, SessionLost
from pleroma.errors import ClientError, WireError
from pleroma.wire.api_call import ApiRequest
from pleroma.wire.api_terms import REQUEST_HEADERS
from pleroma.wire.inband_messages import MAX_NAME_BYTES, RefusalReason
from pleroma.wire.token_proof import client_key

INBAND_ANSWER_SECONDS = 10.0


class InbandTransport(httpx.AsyncBaseTransport):
    """`open_pipes` is called at the first request. `host` is the name that this machine asks to have as a host."""

    def __init__(
        self,
        open_pipes: Callable[[Callable[[Pipe, bytes], None]], Sequence[Pipe]],
        principal: str | None,
        token: str | None,
        host: str = "",
    ) -> None:
        if not principal or not token:
            raise ClientError("in-band takes the name of a principal and its token", field="principal", value=principal)
        for field, name in (("principal", principal), ("host", host)):
            if len(name.encode(errors="replace")) > MAX_NAME_BYTES:
                raise ClientError(f"a name has at most {MAX_NAME_BYTES} bytes", field=field, value=name)
        self._conversation = Conversation(principal, client_key(token), host, open_pipes)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        seconds = request.extensions.get("timeout", {}).get("read") or INBAND_ANSWER_SECONDS
        body = await request.aread()
        headers = tuple((name, request.headers[name]) for name in REQUEST_HEADERS if name in request.headers)
        api_request = ApiRequest(request.method, request.url.raw_path.decode("ascii"), headers, body)
        conversation = self._conversation
        try:
            async with asyncio.timeout(seconds):
                answer = await conversation.ask(api_request)
        except TimeoutError:
            if conversation.is_greeted:
                raise httpx.ReadTimeout("no answer came through the network", request=request) from None
            raise httpx.ConnectTimeout(_silence(conversation.refusal), request=request) from None
        except SessionLost:
            raise httpx.ReadError("the controller has forgotten the session", request=request) from None
        except WireError as error:
            raise httpx.LocalProtocolError(str(error), request=request) from None
        return httpx.Response(answer.status, headers=list(answer.headers), content=answer.body, request=request)

    async def aclose(self) -> None:
        self._conversation.close()


def _silence(refusal: RefusalReason | None) -> str:
    if refusal is RefusalReason.NOT_KNOWN:
        return "nobody answers but to say that the principal is not known, or has another token"
    return "no controller answers in this network"
