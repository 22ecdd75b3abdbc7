"""A state folder with very many subscriptions, written without the time that it takes to accept so many."""

from pathlib import Path

from pleroma.content.filter_json import to_json
from pleroma.control import ControlState, CreatePrincipal, CreateSchema, Register, SqliteLog
from pleroma.control.kept_answers import KeptAnswers
from pleroma.control.logged_state import LOG_FILE_NAME
from pleroma.control.state.command import canonical
from pleroma.control.state.records import Registered
from pleroma.control.state_snapshot import snapshot
from pleroma.routing import build
from pleroma.workloads import Model, generate
from support.control_cases import DIGEST


def write_many(folder: Path, model: Model) -> int:
    """What a controller leaves behind on the topology "testbed"; returns how many registrations stand."""
    load = generate(model)
    state = ControlState(build("testbed"))
    hosts = [host.name for host in state.topology.hosts]
    state.apply(2, CreateSchema(load.schema))
    state.apply(3, CreatePrincipal("ann", "admin", DIGEST))
    for position, host in enumerate(hosts, 4):
        state.apply(position, Register("advertisement", "ann", host, load.schema.name, [{}]))
    entry, first = state.schemas[load.schema.name], 4 + len(hosts)
    for position, wanted in enumerate(load.subscriptions, first):
        host, text = hosts[position % len(hosts)], canonical(to_json(wanted))
        region = entry.index.cover(wanted, max_members=entry.members).under(entry.prefix)
        region.slim()
        state.registrations.add(Registered(f"s{position}", "subscription", "ann", host, entry, text, region, 0))
    with SqliteLog.open(folder / LOG_FILE_NAME) as log:
        log.append([b"{}"] * (first + len(load.subscriptions) - 1))
        log.save_snapshot(log.head, snapshot(state, KeptAnswers()))
    return len(state.registrations)
