"""Several trees on one network, and which dz travel on which, so that no cable is much busier than it has to be."""

from pleroma.routing.balancing.balanced import BalancedTrees, joined, most_cells
from pleroma.routing.balancing.cable_loads import CableLoads, Sent, predict
from pleroma.routing.balancing.receivers import sent_to_subscribers
from pleroma.routing.balancing.traffic_cells import cells_by_traffic
from pleroma.routing.balancing.tree_candidates import candidate_trees
from pleroma.routing.balancing.tree_dealing import MAX_DEALT_TREES, Dealt, deal

__all__ = [
    "MAX_DEALT_TREES",
    "BalancedTrees",
    "CableLoads",
    "Dealt",
    "Sent",
    "candidate_trees",
    "cells_by_traffic",
    "deal",
    "joined",
    "most_cells",
    "predict",
    "sent_to_subscribers",
]
