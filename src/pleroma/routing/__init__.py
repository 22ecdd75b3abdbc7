"""Bits to rules: topologies, trees, demands, and the flow tables that follow from them."""

from pleroma.routing.admission import Admissions, AdmitOp
from pleroma.routing.budget import Coarsening, Weights
from pleroma.routing.cases import Case, cases
from pleroma.routing.detour import DetourOp, SwitchOp
from pleroma.routing.family import Family, OneTree, Policy
from pleroma.routing.flow import Change, Flow, FlowOp, FlowTable, Output, difference, in_safe_order
from pleroma.routing.forest import PublisherForest
from pleroma.routing.presence import Presence
from pleroma.routing.request import Advertise, Registration, Request, Subscribe, Unadvertise, Unsubscribe
from pleroma.routing.router import Router
from pleroma.routing.shapes import SHAPES, build
from pleroma.routing.topology import Host, HostId, Link, Port, SwitchId, Topology
from pleroma.routing.topology_files import with_ipv4
from pleroma.routing.tree import Tree, low_latency_tree, repair, rooted_tree

__all__ = [
    "SHAPES",
    "Admissions",
    "AdmitOp",
    "Advertise",
    "Case",
    "Change",
    "Coarsening",
    "DetourOp",
    "Family",
    "Flow",
    "FlowOp",
    "FlowTable",
    "Host",
    "HostId",
    "Link",
    "OneTree",
    "Output",
    "Policy",
    "Port",
    "Presence",
    "PublisherForest",
    "Registration",
    "Request",
    "Router",
    "Subscribe",
    "SwitchId",
    "SwitchOp",
    "Topology",
    "Tree",
    "Unadvertise",
    "Unsubscribe",
    "Weights",
    "build",
    "cases",
    "difference",
    "in_safe_order",
    "low_latency_tree",
    "repair",
    "rooted_tree",
    "with_ipv4",
]
