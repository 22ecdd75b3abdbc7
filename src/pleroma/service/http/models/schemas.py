"""Schemas: the body that creates one, and the answer that shows one."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field

from pleroma.index import MAX_MEMBERS
from pleroma.service.http.examples import EXAMPLE_SCHEMA
from pleroma.service.http.models.strict_model import StrictModel


class NewSchema(StrictModel):
    model_config = ConfigDict(json_schema_extra={"examples": [{"schema": EXAMPLE_SCHEMA}]})

    definition: dict[str, Any] = Field(alias="schema", description="A schema as in its JSON file")
    bits: Annotated[int, Field(ge=1, le=112)] | None = Field(None, description="How many bits the first plan may use")
    members: Annotated[int, Field(ge=1, le=MAX_MEMBERS)] | None = Field(
        None, description="Cells that a registration is enclosed with by the first plan, at most"
    )


class LaterVersion(StrictModel):
    model_config = ConfigDict(json_schema_extra={"examples": [{"schema": EXAMPLE_SCHEMA}]})

    definition: dict[str, Any] = Field(alias="schema", description="The schema with wider domains, or more attributes")


class ExtendedSchema(StrictModel):
    name: str = Field(alias="schema", examples=["stock"])
    version: int = Field(description="How many versions there are now", examples=[2])
    epoch: int = Field(description="Of the plan in force")
    withdrawn: list[str] = Field(
        description="Registrations that went, because the rights of who made them do not allow them on wider domains"
    )


class RemovedSchema(StrictModel):
    name: str = Field(alias="schema", examples=["stock"])
    principals: list[str] = Field(description="Those who had rights that named the schema; they have them no longer")


class SchemaAnswer(StrictModel):
    definition: dict[str, Any] = Field(alias="schema", examples=[EXAMPLE_SCHEMA])
    number: int = Field(description="In the header of its packets")
    prefix: str = Field(description="The bits in front of every dz of this schema", examples=["000000"])
    fingerprint: int
    epoch: int = Field(description="Of the plan in force")
    version: int = Field(description="How many versions the schema has; this is the last", examples=[1])
