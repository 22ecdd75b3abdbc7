"""`pleroma plan`: the index of a schema, those before it, and moving to another one while events flow."""

from __future__ import annotations

import time
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pleroma.cli.options import JsonFlag
from pleroma.cli.output import err, out, show_json
from pleroma.cli.remote import DEFAULT_URL, TokenOption, UrlOption, remote_api, segment
from pleroma.errors import PlanError, RequestRefused, UnknownName

if TYPE_CHECKING:
    from pleroma.client.blocking_api import BlockingApi

app = typer.Typer(help="The plan by which events become addresses, and changes of it.", no_args_is_help=True)

PHASE_TEXTS = {
    "prepared": "switches are prepared",
    "swapped": "the new plan is in force; publishers adopt it",
    "settled": "the change is over",
}
PHASE_POLL_SECONDS = 0.1

SchemaName = Annotated[str, typer.Argument(metavar="SCHEMA", help="As `pleroma status` names it.")]
Method = Annotated[
    str,
    typer.Option(
        help="lightweight (detours: hardly any rules more), versioning (both versions for a while: no waste) or "
        "at_once (events may be lost: for networks on which nobody publishes)."
    ),
]


@app.command()
def show(schema: SchemaName, url: UrlOption = DEFAULT_URL, token: TokenOption = None, json: JsonFlag = False) -> None:
    """The plan in force: what it looks at, who asked for it and when, what was predicted and what was measured.

    Also whether it is changing, and who looks for a better one.
    """
    with remote_api(url, token) as remote:
        plan = remote.get(_path(schema))
        plan |= _history(remote, schema, plan["epoch"])
        looking = _looking(remote, schema)
    if json:
        show_json(plan | {"replanning": looking})
        return
    from pleroma.cli.plan_tables import described, show_plan

    out.print(f"plan {plan['epoch']} of {schema} under the prefix {plan['prefix']}: {described(plan)}")
    show_plan(plan)
    out.print(f"at most {plan['members']} cells a registration; {plan['phase']}: {PHASE_TEXTS[plan['phase']]}")
    if looking is not None:
        out.print(_looked(looking), markup=False, soft_wrap=True)
        out.print(_travelling(looking["trees"]), markup=False, soft_wrap=True)


@app.command()
def history(
    schema: SchemaName, url: UrlOption = DEFAULT_URL, token: TokenOption = None, json: JsonFlag = False
) -> None:
    """The plans of a schema that are kept: when and by whom each was asked for, predicted and measured waste."""
    with remote_api(url, token) as remote:
        plans = list(remote.items(f"/v1/schemas/{segment(schema)}/plans"))
    if json:
        show_json({"schema": schema, "plans": plans})
        return
    from pleroma.cli.plan_tables import show_plans

    show_plans(schema, plans)


@app.command()
def apply(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A plan, such as `pleroma tune --plan` writes.")],
    method: Method = "lightweight",
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    json: JsonFlag = False,
) -> None:
    """Move the schema that the plan is for to its index, and to the number of dz that a registration may have by it.

    No event is lost on the way. A plan that was written without such a number leaves it as it is. What was predicted
    when the plan was made is shown beside what the controller expects of it now, and why the two differ.
    """
    from pleroma.cli.plan_expectation import PlanExpectation
    from pleroma.cli.plan_file import StoredPlan

    stored = StoredPlan.read(file)
    plan = stored.plan
    _check(method)
    body = {"index": plan.index.to_json(), "members": plan.members if stored.has_members else None, "method": method}
    body["predicted"] = dict(stored.predicted)
    with remote_api(url, token) as remote:
        name = plan.schema.name
        if remote.get(f"/v1/schemas/{segment(name)}")["schema"] != plan.schema.to_json():
            raise PlanError(f"the controller's schema {name!r} has other attributes", field=str(file), value=name)
        expectation = PlanExpectation.ask(remote, _path(name), stored)
        if not json:
            for line in expectation.lines():
                out.print(line, markup=False, soft_wrap=True)
        _move(remote, name, "PUT", "", body, json, expectation.figures())


@app.command()
def rollback(
    schema: SchemaName,
    epoch: Annotated[int | None, typer.Option(min=1, help="Which plan; without it the one before.")] = None,
    method: Method = "lightweight",
    url: UrlOption = DEFAULT_URL,
    token: TokenOption = None,
    json: JsonFlag = False,
) -> None:
    """Move back to an earlier plan, under a new epoch."""
    _check(method)
    with remote_api(url, token) as remote:
        _move(remote, schema, "POST", "/rollback", {"epoch": epoch, "method": method}, json)


def _check(method: str) -> None:
    from pleroma.control.transition.plan_change import CHANGE_METHODS

    if method not in CHANGE_METHODS:
        raise UnknownName("method", method, CHANGE_METHODS, field="--method")


def _move(
    remote: BlockingApi,
    schema: str,
    verb: str,
    path: str,
    body: dict[str, Any],
    json: bool,
    more: Mapping[str, Any] | None = None,
) -> None:
    """Have the plan changed, and follow how far that is; `more` is shown with the outcome as JSON."""
    before = remote.get(_path(schema))["epoch"]
    began = time.monotonic()
    now = remote.ask(verb, _path(schema) + path, body | {"wait": False})
    told = None
    while now["phase"] != "settled":
        if now["phase"] != told:
            told = now["phase"]
            err.print(PHASE_TEXTS[told], markup=False)
        time.sleep(PHASE_POLL_SECONDS)
        now = remote.get(_path(schema))
    seconds = time.monotonic() - began
    changed = now["epoch"] != before
    if json:
        figures = {"schema": schema, "epoch": now["epoch"], "changed": changed, "seconds": round(seconds, 3)}
        show_json(figures | dict(more or {}))
    elif changed:
        out.print(f"plan {now['epoch']} of {schema} is in force, after {seconds:.1f} s")
    else:
        out.print(f"plan {now['epoch']} of {schema} is this one already")


def _history(remote: BlockingApi, schema: str, epoch: int) -> dict[str, Any]:
    """What the history adds to the plan of an epoch; nothing if the plan is of a moment ago and the next has come."""
    found = remote.get(f"/v1/schemas/{segment(schema)}/plans", after=str(epoch - 1), limit="1")["items"]
    return {name: found[0].get(name) for name in ("origin", "measured")} if found else {}


def _looking(remote: BlockingApi, schema: str) -> dict[str, Any] | None:
    """What the controller says of re-planning; None to those who may see the plan and not that."""
    try:
        answer: dict[str, Any] = remote.get(f"{_path(schema)}/replanning")
    except RequestRefused as error:
        if error.status != HTTPStatus.FORBIDDEN:
            raise
        return None
    return answer


def _looked(looking: dict[str, Any]) -> str:
    """Who looks for a better plan, and what the controller's last look found."""
    by = {
        "controller": "the controller looks for better plans itself",
        "watcher": "a watcher of the lake looks for better plans",
        "nobody": "nobody looks for better plans (pleroma up --replan auto, or pleroma pipeline watch)",
    }[looking["by"]]
    decision = looking["decision"]
    if looking["failure"]:
        return f"{by}, and cannot now: {looking['failure']}"
    if looking["by"] != "controller" or decision is None:
        return by
    if decision["before"] is None or decision["after"] is None:
        return f"{by}; last look: {decision['detail']}"
    before, after = (f"{decision[name]['rate']:.1%}" for name in ("before", "after"))
    found = {"handing": "a better plan was found", "not_better": "nothing better was found"}
    outcome = found.get(decision["outcome"], decision["outcome"])
    return f"{by}; last look: {decision['detail']}; {outcome}: waste at hosts {before} now, {after} with the best found"


def _travelling(trees: dict[str, Any]) -> str:
    """On which trees events travel, and how these were compared with others last."""
    text = f"trees in use ({trees['choice']}): {trees['count']}; moves so far: {trees['moves']}"
    compared = trees["busiest_cable"]
    if compared is None:
        return text
    now, expected = (f"{compared[name]:.0%}" for name in ("now", "expected"))
    outcome = {"adopted": "events moved", "not_better": "events stay"}.get(
        compared["outcome"], "events cannot move yet"
    )
    return f"{text}; the busiest cable carried {now} of the events, with trees dealt out anew {expected}: {outcome}"


def _path(schema: str) -> str:
    return f"/v1/schemas/{segment(schema)}/plan"
