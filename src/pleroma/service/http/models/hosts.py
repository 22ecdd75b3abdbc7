"""Hosts and attachments: the bodies that make them, and the answers that show them."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from pleroma.service.http.models.strict_model import Name, QueryModel, StrictModel


class HostAnswer(StrictModel):
    name: str = Field(examples=["h1"])
    switch: str = Field(examples=["R7"])
    address: str = Field(examples=["fd00::1"])


class NewHost(StrictModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"name": "kiosk", "switch": "s2", "port": 7, "address": "fd00::77", "mac": "02:00:00:00:00:07"}
            ]
        }
    )

    name: Name
    switch: str = Field(max_length=200)
    port: Annotated[int, Field(ge=1, le=65279)]
    address: str = Field(max_length=64, description="Its IPv6 or IPv4 address")
    mac: str = Field(pattern="^[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}$", description="Of its network card")


class AttachmentQuestion(QueryModel):
    lease: Annotated[str, Field(min_length=1, max_length=64)] | None = Field(
        None, description="What the program registers under: a broker tells programs of a principal apart by it"
    )
    tags: bool = Field(
        False, description="That the program makes and checks the tags of events; where events have them, it must"
    )


class AttachmentAnswer(StrictModel):
    host: str
    address: str = Field(description="The host's address inside the network")
    range: str = Field(description="The addresses that events travel under", examples=["ff0e::/16"])
    network: str = Field(
        description="`tunnel` to a simulated host, or `native`: the host's own network", examples=["tunnel"]
    )
    udp_host: str | None = Field(None, description="Of a tunnel", examples=["127.0.0.1"])
    port: int = Field(description="Where packets go into the tunnel and attach frames are sent; or of all events")
    secret: str | None = Field(
        None, description="16 bytes in hex, for the attach frame of a tunnel", examples=["0" * 32]
    )
    seconds: float = Field(description="Attach to a tunnel again within this time")
    tags: bool = Field(description="Whether events have tags here")
