"""What there is of the network at the moment, as the last `Rewire` command of the log says.

Because it is in the log, the trees that events follow are a fold of the log too: which links a repaired tree has
depends on what failed before.
"""

from __future__ import annotations

from collections.abc import Mapping

from pleroma.control.state.command import Rewire
from pleroma.errors import ControlError, TopologyError
from pleroma.routing import Port, Presence, SwitchId, Topology
from pleroma.routing.presence import with_hosts
from pleroma.routing.topology_files import from_json, to_json


def rewire_of(presence: Presence, rooms: Mapping[SwitchId, int], discovered: Topology | None) -> Rewire:
    """The command that says this. `discovered` has the switches and links that were found, if they were."""
    return Rewire(
        tuple(sorted(presence.absent)),
        tuple(sorted(presence.down)),
        tuple(sorted(rooms.items())),
        None if discovered is None else to_json(discovered),
    )


def presence_of(there: Rewire) -> Presence:
    return Presence(
        frozenset(map(SwitchId, there.absent)), frozenset((SwitchId(name), Port(port)) for name, port in there.down)
    )


def discovered_wiring(there: Rewire) -> Topology | None:
    """The switches and links that were found, if they were."""
    if there.wiring is None:
        return None
    try:
        return from_json(there.wiring, whole=False)
    except TopologyError as error:
        raise ControlError(error.reason, field=error.field, value=error.value) from None


def present_topology(known: Topology, there: Rewire) -> Topology:
    """What is there to route on, of a network that was described, with the hosts that were learned, or discovered."""
    found = discovered_wiring(there)
    rooms = {SwitchId(name): room for name, room in there.rooms}
    return presence_of(there).of(with_hosts(known if found is None else found, known.hosts, rooms))
