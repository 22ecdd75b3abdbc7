"""The program of a `ServiceProcess`. Its argument is JSON: folder, topology, port, settings, and what else there is."""

import contextlib
import json
import sys
from pathlib import Path

from pleroma.broker.upstream import BrokerAbove
from pleroma.control import ControlSettings
from pleroma.routing import build
from pleroma.service import BrokerSettings, CollectingSettings, Deployment, OpenFlowSettings, ServiceSettings, serve
from pleroma.service.planes.broker_plane import BROKER_TOPOLOGY
from pleroma.service.roles.process_role import ALL_ROLES, read_roles


def main(text: str) -> None:
    given = json.loads(text)
    collecting, above = given["collecting"], given["broker"]
    plane: BrokerSettings | OpenFlowSettings | None = None
    if above is not None:
        plane = BrokerSettings(BrokerAbove(*above) if above else None)
    elif given["openflow"] is not None:
        plane = OpenFlowSettings(("127.0.0.1", given["openflow"]), discovers=given["discovers"])
    with contextlib.suppress(KeyboardInterrupt):
        serve(
            Path(given["folder"]),
            build(given["topology"]) if above is None else BROKER_TOPOLOGY,
            Deployment(
                port=given["port"],
                settings=ServiceSettings(**given["settings"]),
                collecting=CollectingSettings(**collecting) if collecting else None,
                trees=given["trees"],
                log=given["log"],
                roles=ALL_ROLES if given["roles"] is None else read_roles(given["roles"]),
                plane=plane,
                control=ControlSettings.within(plane.addresses.bits) if isinstance(plane, OpenFlowSettings) else None,
            ),
        )


if __name__ == "__main__":
    main(sys.argv[1])
