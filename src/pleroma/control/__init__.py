"""The control plane: a durable log of accepted commands, the state that follows from it, and the switches' rules."""

from pleroma.control.client_counters import ClientCounters
from pleroma.control.control_state import ControlState
from pleroma.control.controller import Controller
from pleroma.control.feed import Feed, FeedReader
from pleroma.control.lane import SwitchDelay
from pleroma.control.log.durable_log import Log, LogSnapshot, Position, Recovery
from pleroma.control.log.group_commit import GroupCommit
from pleroma.control.log.sqlite_log import SqliteLog
from pleroma.control.southbound import Southbound
from pleroma.control.state.command import (
    AdoptPlan,
    Advance,
    ChangePlan,
    Command,
    CreateSchema,
    Expire,
    ExtendSchema,
    ForgetHost,
    LearnHost,
    Register,
    RemoveSchema,
    Withdraw,
    command_from_json,
)
from pleroma.control.state.control_settings import ControlSettings
from pleroma.control.state.people_commands import (
    ChangeGroup,
    ChangePrincipal,
    CreateGroup,
    CreatePrincipal,
    EndToken,
    RemoveGroup,
    RemovePrincipal,
    RotateToken,
)
from pleroma.control.state.records import Group, Principal, Registered, SchemaEntry, Token
from pleroma.control.state.result import CommandRefused, Done, Result
from pleroma.control.transition.plan_change_runner import PlanChangeTiming

__all__ = [
    "AdoptPlan",
    "Advance",
    "ChangeGroup",
    "ChangePlan",
    "ChangePrincipal",
    "ClientCounters",
    "Command",
    "CommandRefused",
    "ControlSettings",
    "ControlState",
    "Controller",
    "CreateGroup",
    "CreatePrincipal",
    "CreateSchema",
    "Done",
    "EndToken",
    "Expire",
    "ExtendSchema",
    "Feed",
    "FeedReader",
    "ForgetHost",
    "Group",
    "GroupCommit",
    "LearnHost",
    "Log",
    "LogSnapshot",
    "PlanChangeTiming",
    "Position",
    "Principal",
    "Recovery",
    "Register",
    "Registered",
    "RemoveGroup",
    "RemovePrincipal",
    "RemoveSchema",
    "Result",
    "RotateToken",
    "SchemaEntry",
    "Southbound",
    "SqliteLog",
    "SwitchDelay",
    "Token",
    "Withdraw",
    "command_from_json",
]
