"""At the start of a service: has the schemas moved that are on other trees than those it is to use.

Events flow meanwhile, so each schema moves by a plan change, which waits for its publishers. The service answers before
all of that is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import structlog

from pleroma.control import Controller
from pleroma.control.state.command import ChooseTrees
from pleroma.control.state.tree_choice import TreeChoice
from pleroma.errors import ControllerClosed, PleromaError

RETRY_SECONDS = 1.0

log = structlog.get_logger("pleroma.service")


@asynccontextmanager
async def moving_to(controller: Controller, trees: TreeChoice | None) -> AsyncIterator[None]:
    """Move all schemas to such trees in the background; None goes on with the trees that were chosen before."""
    trees = trees or controller.state.trees
    if trees != controller.state.trees:
        await controller.submit(ChooseTrees(trees))  # from now on the log knows what is wanted
    if not controller.schemas_on_other_trees:
        yield
        return
    task = asyncio.create_task(_move(controller, trees), name="trees")
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _move(controller: Controller, trees: TreeChoice) -> None:
    reason = ""
    while True:
        try:
            await controller.choose_trees(trees)
            log.info("all schemas are on their trees", trees=trees)
            return
        except ControllerClosed:
            return
        except PleromaError as error:  # another plan is changing, or there is no spare prefix
            if reason != str(error):
                reason = str(error)
                log.warning("a schema cannot move to other trees now", trees=trees, reason=reason)
        await asyncio.sleep(RETRY_SECONDS)
