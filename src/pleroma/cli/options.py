"""The options that several commands share, and groups of options that reach a command as one record.

Typer makes each parameter of a command an option. A parameter of a `grouped` command may also be a dataclass whose
fields are annotated like options: each field is an option then, and the command gets the record.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import StrEnum
from functools import wraps
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

from pleroma.errors import SetupError

if TYPE_CHECKING:
    from pleroma.service.logs import LogSettings

JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON object on the last line instead of tables.")]
SparkMaster = Annotated[
    str | None,
    typer.Option("--master", help="Where Spark is: local[*] (this machine), spark://HOST:PORT, sc://HOST, yarn, ..."),
]
LakeArgument = Annotated[
    str, typer.Argument(metavar="LAKE", help="Where `pleroma up --lake` lands: a folder or a URI.")
]
LakeSchema = Annotated[str | None, typer.Option(help="Which schema of the lake; not needed where there is one.")]
WorkloadFolder = Annotated[Path, typer.Argument(metavar="FOLDER", help="A workload made by `pleroma workload`.")]
CompareFlag = Annotated[
    bool, typer.Option("--compare", help="Try the papers' techniques too, not only a tree; many times slower.")
]
Selections = Annotated[
    str | None, typer.Option(help="Ways to select dimensions that are compared: ges,sms; all, otherwise.")
]
Splits = Annotated[str | None, typer.Option(help="Ways to split that are compared: regular,adaptive; all, otherwise.")]
StateFolder = Annotated[Path, typer.Option(help="Where the log is kept; what was accepted is there after a restart.")]
PlanFile = Annotated[Path | None, typer.Option(help="Write the best plan here, as JSON.")]


class Addresses(StrEnum):
    """What events travel under."""

    V6 = "ipv6"
    V4 = "ipv4"


@dataclass(frozen=True, slots=True)
class BudgetOptions:
    """What a plan may use."""

    bits: Annotated[
        int,
        typer.Option(help="Bits to spend: 23 over IPv4, up to 112 over IPv6; a controller's first plan has 56."),
    ] = 23
    rules: Annotated[
        int | None, typer.Option(help="Rules that any switch has room for; 2,000, or a switch's own limit, otherwise.")
    ] = None
    members: Annotated[
        int | None, typer.Option(help="At most this many dz per subscription; what the plan needs, otherwise.")
    ] = None

    def check(self) -> None:
        from pleroma.index import MAX_MEMBERS

        for name, given, most in (("rules", self.rules, None), ("members", self.members, MAX_MEMBERS)):
            if given is not None and (given < 1 or (most is not None and given > most)):
                raise SetupError(f"{given} {name} are no budget", field=f"--{name}", value=given)


@dataclass(frozen=True, slots=True)
class LogOptions:
    """What a command that runs until it is stopped logs on standard error."""

    log_format: Annotated[
        Literal["json", "text"] | None,
        typer.Option(help="json: an object a line; text: for people. If not given, text on a terminal, else json."),
    ] = None
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], typer.Option(help="Log this and what is more serious.")
    ] = "info"

    def settings(self) -> LogSettings:
        from pleroma.service.logs import LogSettings

        return LogSettings(self.log_format, self.log_level)


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """A command for Typer in whose place of each dataclass stand options for its fields."""
    parameters: list[Parameter] = []
    records: dict[str, type[Any]] = {}
    for each in inspect.signature(command, eval_str=True).parameters.values():
        if is_dataclass(each.annotation) and isinstance(each.annotation, type):
            records[each.name] = each.annotation
            parameters += _options(each.annotation)
        else:
            parameters.append(each.replace(kind=Parameter.KEYWORD_ONLY))

    @wraps(command)
    def with_records(*arguments: Any, **given: Any) -> None:
        made = {
            name: record(**{each.name: given.pop(each.name) for each in fields(record) if each.name in given})
            for name, record in records.items()
        }
        command(*arguments, **given, **made)

    with_records.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    with_records.__annotations__ = {each.name: each.annotation for each in parameters}
    return with_records


def _options(record: type[Any]) -> list[Parameter]:
    hints = get_type_hints(record, include_extras=True)
    defaults = ((each.name, Parameter.empty if each.default is MISSING else each.default) for each in fields(record))
    return [
        Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=hints[name]) for name, default in defaults
    ]


def listed(text: str) -> tuple[str, ...]:
    """Names between commas."""
    return tuple(name for each in text.split(",") if (name := each.strip()))


def check_file(option: str, path: Path | None) -> None:
    """Refuse a file to be written in a folder that does not exist before any work is done for it."""
    if path is not None and not path.resolve().parent.is_dir():
        raise SetupError(f"the folder {path.resolve().parent} does not exist", field=option, value=str(path))
