"""Keeping rules right: the durable log of accepted requests, and the state that follows from it."""

from pleroma.control.command import (
    AdoptPlan,
    Advance,
    ChangePlan,
    Command,
    CreatePrincipal,
    CreateSchema,
    Expire,
    ForgetHost,
    LearnHost,
    Register,
    RemovePrincipal,
    Withdraw,
    command_from_json,
)
from pleroma.control.controller import Controller
from pleroma.control.entry import Appended, Conflict, Entry, Outcome, Position, Repeated
from pleroma.control.feed import Feed, Listener
from pleroma.control.group_commit import GroupCommit
from pleroma.control.log import Log, Recovery, Snapshot
from pleroma.control.result import Done, Refused, Result
from pleroma.control.settings import ControlSettings
from pleroma.control.southbound import Southbound
from pleroma.control.standing import Principal, Registered, SchemaEntry
from pleroma.control.state import ControlState
from pleroma.control.statistics import Statistics

__all__ = [
    "AdoptPlan",
    "Advance",
    "Appended",
    "ChangePlan",
    "Command",
    "Conflict",
    "ControlSettings",
    "ControlState",
    "Controller",
    "CreatePrincipal",
    "CreateSchema",
    "Done",
    "Entry",
    "Expire",
    "Feed",
    "ForgetHost",
    "GroupCommit",
    "LearnHost",
    "Listener",
    "Log",
    "Outcome",
    "Position",
    "Principal",
    "Recovery",
    "Refused",
    "Register",
    "Registered",
    "RemovePrincipal",
    "Repeated",
    "Result",
    "SchemaEntry",
    "Snapshot",
    "Southbound",
    "Statistics",
    "Withdraw",
    "command_from_json",
]
