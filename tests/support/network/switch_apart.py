"""One switch of a lab in a process of its own, which can be stopped while the others run."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from pleroma.lab import Lab, namespaces, registry, veth_links
from pleroma.lab.daemons import Daemons
from pleroma.lab.lab_names import prefix
from pleroma.routing import SwitchId


@contextmanager
def switch_apart(lab: Lab, switch: SwitchId, controller: str) -> Iterator[int]:
    """Give a switch a daemon, a database and a namespace of its own, with the same ports; yields the daemon's process.

    The switches of one daemon share a datapath, and a namespace has one such datapath.
    """
    bridge, folder = lab.bridge(switch), lab.folder / "apart"
    name, net = f"{lab.name}_apart", f"{prefix(lab.name)}apart"
    ports = [lab.names.port(switch, number) for number in lab.topology.ports[switch]]
    apart = Daemons(name, folder, net)
    folder.mkdir()
    lab.vsctl("del-br", bridge)
    namespaces.add([net], lab.name)
    namespaces.ip((f"link set {port} netns {net}" for port in ports), lab.names.net)
    with namespaces.inside(net):
        namespaces.set_here(veth_links.SWITCH_SETTINGS)
    namespaces.ip((f"link set {port} up" for port in ["lo", *ports]), net)
    try:
        apart.start_database()
        words = veth_links.bridge(
            lab.topology,
            lab.names,
            switch,
            controllers=apart.join([controller]),
            protocols=lab._protocols,
            limited_table=lab._limited_table,
        )
        apart.vsctl("--no-wait", *words)
        apart.start_switches()
        (lab.folder / f"{bridge}.mgmt").symlink_to(folder / f"{bridge}.mgmt")
        yield int((folder / "switches.pid").read_text())
    finally:
        registry.end(lambda: registry.marked(name), name)


@contextmanager
def stopped(process: int) -> Iterator[None]:
    """The process does nothing meanwhile, and its connections stay open."""
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)
