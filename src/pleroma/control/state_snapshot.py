"""The state as bytes, so that a restart need not apply the whole log.

A snapshot is a line of JSON, a line for each registration and for each answer, then the packed regions in force of all
registrations, and their other regions while a plan changes. Regions are written down because to cover a hundred
thousand filters again would take the better part of a minute, and because a region depends on the plan changes before.
A snapshot is written in another thread while the state changes. The event loop waits only while all that the snapshot
consists of is gathered (`taken`): values that nobody changes, and copies of the few that somebody may.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any

from pleroma.background import collecting_later
from pleroma.content import Schema
from pleroma.control.control_state import ControlState
from pleroma.control.kept_answers import KeptAnswers, with_digests
from pleroma.control.state.command import Begin, Lead, Rewire, canonical, command_from_json
from pleroma.control.state.control_settings import ControlSettings
from pleroma.control.state.learned_hosts import with_host
from pleroma.control.state.people_commands import verifier_in
from pleroma.control.state.plan_origin import PlanOrigin
from pleroma.control.state.present_network import present_topology
from pleroma.control.state.records import Group, Principal, Registered, Rights, SchemaEntry, Token
from pleroma.control.state.regions import schema_prefix
from pleroma.control.state.tree_choice import DealtTree, check_choice, dealt
from pleroma.control.transition.plan_change import PlanChange
from pleroma.errors import OtherControl
from pleroma.index import EVERYTHING, Dz, DzSet, IndexPlan, index_from_json
from pleroma.index.dzset import PACKED_BYTES
from pleroma.routing import Host, Topology

SNAPSHOT_FORMAT = 1


def snapshot(state: ControlState, answers: KeptAnswers) -> bytes:
    """All that `restore` needs. The same history gives the same bytes."""
    return taken(state, answers)()


def taken(state: ControlState, answers: KeptAnswers) -> Callable[[], bytes]:
    """What writes the snapshot of the state as it is now, whatever becomes of the state meanwhile."""
    settings = state.settings.to_json() | {"max_members": state.plans.first_members}
    schemas = [replace(entry, plans=list(entry.plans), origins=dict(entry.origins)) for entry in state.schemas.values()]
    next_number, first_epoch = state.plans.next_number, state.plans.first_epoch
    leadership, lead, rights_since = state.leadership, state.lead, state.rights_since
    principals, hosts = list(state.principals.values()), list(state.learned.values())
    groups = list(state.people.groups.values())
    network, trees, there, families = state.network, state.trees, state.there, state.router.families
    changing = state.plans.change
    change = None if changing is None else replace(changing, other=dict(changing.other))
    registrations, kept = list(state.registrations.values()), answers.items()

    def write() -> bytes:
        head = {
            "format": SNAPSHOT_FORMAT,
            "settings": settings,
            "network": network,
            "schemas": [_schema(entry) for entry in schemas],
            "next_number": next_number,
            "first_epoch": first_epoch,
            "leadership": leadership,
            "lead": None if lead is None else lead.to_json(),
            "rights_since": rights_since,
            "principals": [_principal(principal) for principal in principals],
            "groups": [{"name": each.name, **_rights(each.rights)} for each in groups],
            "hosts": [asdict(host) for host in hosts],
            "trees": trees,
            "there": there.to_json(),
            "families": [each.to_json() for each in dealt(families)],
            "changing": None if change is None else _change(change),
            "registrations": len(registrations),
            "answers": len(kept),
        }
        texts = "\n".join([canonical(head), *_lines(registrations), *(each.line for each in kept), ""])
        regions = [registered.region.pack() for registered in registrations]
        others = () if change is None else change.other.values()
        return b"".join([texts.encode(), *regions, *(region.pack() for region in others)])

    return write


def restore(
    data: bytes, topology: Topology, settings: ControlSettings, share: DzSet = EVERYTHING
) -> tuple[ControlState, KeptAnswers]:
    """The state and the answers of a snapshot. Flow tables are computed from the regions, in a share of the dz."""
    with collecting_later():
        head, _, _ = data.partition(b"\n")
        read = json.loads(head)
        if read.get("format") != SNAPSHOT_FORMAT:
            raise OtherControl(f"the snapshot has format {read.get('format')}, not {SNAPSHOT_FORMAT}", field="format")
        state = ControlState(topology, settings, share)
        state.check_begin(Begin(read["settings"], read["network"]))
        limit = state.plans.first_members = read["settings"]["max_members"]
        for place, each in enumerate(read["schemas"]):
            schema = Schema.from_json(each["schema"])
            plans = [_plan(schema, limit, *plan) for plan in each["plans"]]
            # snapshots of versions that could not remove a schema have them in the order of their numbers and shares
            number, at = each.get("number", place), each.get("share", place)
            prefix = Dz.parse(each["prefix"]) if "prefix" in each else schema_prefix(at, settings)
            trees = check_choice(each.get("trees", "single"))
            origins = {int(epoch): PlanOrigin.from_json(given) for epoch, given in each.get("origins", {}).items()}
            earlier = tuple(map(Schema.from_json, each.get("earlier", ())))
            state.plans.schemas[schema.name] = SchemaEntry(schema, number, prefix, plans, trees, at, origins, earlier)
        state.plans.next_number = read.get("next_number", len(read["schemas"]))
        state.plans.first_epoch = read.get("first_epoch", 1)
        state.leadership, state.rights_since = read.get("leadership", 0), read.get("rights_since", 0)
        if read.get("lead") is not None:
            lead = command_from_json(read["lead"])
            state.lead = lead if isinstance(lead, Lead) else None
        for each in read.get("hosts", ()):
            host = Host(**each)
            state.learn(host, with_host(state.topology, host))
        _restore_network(state, read)
        groups = [Group(each["name"], _read_rights(each)) for each in read.get("groups", ())]
        state.people.restore(groups, map(_read_principal, read["principals"]))
        count = read["registrations"]
        _, *lines, regions = data.split(b"\n", 1 + count + read["answers"])
        at = _restore_registrations(state, lines[:count], regions)
        if read.get("changing") is not None:
            at = _resume(state, read["changing"], regions, at)
        if at != len(regions):
            raise OtherControl(f"{len(regions)} bytes are not the {at} of all regions", field="snapshot", value=at)
        state.plans.load_rules()
        return state, KeptAnswers.read(line.decode() for line in lines[count:])


def upgraded(data: bytes, digests: Mapping[int, bytes]) -> bytes:
    """A snapshot of an earlier version as this one writes it: with verifiers in the place of the clients' keys, and
    with digests of the requests that were answered (`digests` has them by position).
    """
    head, _, rest = data.partition(b"\n")
    read = json.loads(head)
    read["principals"] = [_principal(_read_principal(each)) for each in read["principals"]]
    *lines, regions = rest.split(b"\n", read["registrations"] + read["answers"])
    registrations, answers = lines[: read["registrations"]], lines[read["registrations"] :]
    kept = [line.encode() for line in with_digests((line.decode() for line in answers), digests)]
    read["answers"] = len(kept)
    return b"\n".join([canonical(read).encode(), *registrations, *kept, regions])


def _principal(principal: Principal) -> dict[str, Any]:
    """What snapshots of earlier versions did not have is written only where there is something to say."""
    earlier = principal.earlier
    more = {"groups": list(principal.groups), "earlier": None if earlier is None else _token(earlier)}
    return {
        "name": principal.name,
        "role": principal.role,
        **_token(principal.token),
        **_rights(principal.own),
        "subscriptions": principal.subscriptions,
        "boxes": principal.boxes,
    } | {name: value for name, value in more.items() if value}


def _read_principal(read: Mapping[str, Any]) -> Principal:
    own = _read_rights(read)
    earlier = read.get("earlier")
    return Principal(
        read["name"],
        read["role"],
        _read_token(read),
        own,
        own,
        read["subscriptions"],
        read.get("boxes"),
        tuple(read.get("groups", ())),
        None if earlier is None else _read_token(earlier),
    )


def _token(token: Token) -> dict[str, Any]:
    more = {"ends": token.ends, "is_over": token.is_over or None}
    return {"verifier": token.digest} | {name: value for name, value in more.items() if value is not None}


def _read_token(read: Mapping[str, Any]) -> Token:
    return Token(verifier_in(read), read.get("ends"), read.get("is_over", False))


def _rights(rights: Rights) -> dict[str, Any]:
    return {"publish": dict(rights.publish), "read": dict(rights.read)}


def _read_rights(read: Mapping[str, Any]) -> Rights:
    return Rights(read["publish"], read["read"])


def _restore_network(state: ControlState, read: Mapping[str, Any]) -> None:
    """What there was of the network, and its trees. Snapshots of earlier versions do not say: one tree is made anew."""
    if "families" not in read:
        state.rules.resume(present_topology(state.topology, state.there), state.trees, None)
        return
    there = command_from_json(read["there"])
    assert isinstance(there, Rewire)  # noqa: S101 (nothing else is written there)
    state.there = there
    present = present_topology(state.topology, there)
    families = [DealtTree.from_json(each).family(present) for each in read["families"]]
    state.rules.resume(present, check_choice(read["trees"]), families)


def _schema(entry: SchemaEntry) -> dict[str, Any]:
    plans = [[plan.epoch, plan.index.to_json(), plan.members] for plan in entry.plans]
    origins = {str(epoch): origin.to_json() for epoch, origin in entry.origins.items()}
    place = {"number": entry.number, "share": entry.share, "prefix": str(entry.prefix), "trees": entry.trees}
    earlier = {"earlier": [each.to_json() for each in entry.earlier]} if entry.earlier else {}
    return {"schema": entry.schema.to_json(), "plans": plans, **place, "origins": origins} | earlier


def _plan(schema: Schema, limit: int, epoch: int, index: Any, members: int | None = None) -> IndexPlan:
    """In snapshots of earlier versions, no plan has a limit of its own: the settings' limit was that of all plans."""
    return IndexPlan(epoch, index_from_json(schema, index), limit if members is None else members)


def _change(change: PlanChange) -> dict[str, Any]:
    """`other` says how many members the other regions have; these come behind all regions in force."""
    return {
        "schema": change.schema,
        "method": change.method,
        "phase": change.phase,
        "before": change.before.to_json(),
        "after": change.after.to_json(),
        "prefix": str(change.prefix),
        "area": [str(cell) for cell in change.area],
        "members": [change.before_members, change.after_members],
        "trees": None if change.trees is None else [each.to_json() for each in change.trees],
        "origin": None if change.origin is None else change.origin.to_json(),
        "dealt_by": change.dealt_by,
        "other": [[each, len(region)] for each, region in change.other.items()],
    }


def _resume(state: ControlState, read: Mapping[str, Any], regions: bytes, at: int) -> int:
    if isinstance(read["area"], str):
        reason = "it was taken by an earlier version while a plan changed; that version has to finish the change"
        raise OtherControl(reason, field="snapshot", value=read["schema"])
    entry = state.schemas[read["schema"]]
    before, after = (index_from_json(entry.schema, read[each]) for each in ("before", "after"))
    prefix, area = Dz.parse(read["prefix"]), DzSet.parse(*read["area"])
    first, last = read.get("members") or [state.plans.first_members] * 2
    given = read.get("trees")
    trees = None if given is None else tuple(map(DealtTree.from_json, given))
    origin = PlanOrigin.if_given(read)
    made = PlanChange(entry, read["method"], before, after, prefix, area, first, last, trees, origin)
    change = replace(made, dealt_by=read.get("dealt_by"), phase=read["phase"])
    for each, members in read["other"]:
        size = members * PACKED_BYTES
        change.other[each] = DzSet.unpack(regions[at : at + size])
        at += size
    state.plans.change = change
    return at


def _lines(registrations: Iterable[Registered]) -> Iterable[str]:
    """For each registration: id, number of members of its region, publisher number, the rest, and its filter."""
    rests: dict[tuple[str, ...], str] = {}  # few, and each belongs to many
    for each in registrations:
        rest = each.kind, each.principal, each.host, each.schema, *((each.lease,) if each.lease else ())
        text = rests.get(rest) or rests.setdefault(rest, canonical(rest))
        yield f"{each.id}\t{len(each.region)}\t{each.publisher}\t{text}\t{each.boxes}"


def _restore_registrations(state: ControlState, lines: Iterable[bytes], regions: bytes) -> int:
    rests: dict[str, Any] = {}
    at = 0
    for line in lines:
        name, members, publisher, text, boxes = line.decode().split("\t")
        rest = rests.get(text) or rests.setdefault(text, json.loads(text))
        size = int(members) * PACKED_BYTES
        region = DzSet.unpack(regions[at : at + size])
        at += size
        kind, principal, host, schema, *lease = rest
        entry = state.schemas[schema]
        state.registrations.add(Registered(name, kind, principal, host, entry, boxes, region, int(publisher), *lease))
    return at
