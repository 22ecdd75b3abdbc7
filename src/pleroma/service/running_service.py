"""A service that answers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn
from fastapi import FastAPI

if TYPE_CHECKING:
    from pleroma.service.http.context import Service


@dataclass(frozen=True, slots=True)
class Running:
    """`token` is the administrator's if it was made just now. A gate has neither the token nor its file."""

    url: str
    token_file: Path | None
    token: str | None
    app: FastAPI
    server: uvicorn.Server

    @property
    def service(self) -> Service:
        service: Service = self.app.state.service
        return service

    async def stopped(self) -> None:
        """Wait until somebody tells the server to stop."""
        while not self.server.should_exit:
            await asyncio.sleep(0.05)

    async def astray(self) -> None:
        """Wait until the state no longer follows the log, and never will."""
        await self.app.state.service.controller.astray.wait()
