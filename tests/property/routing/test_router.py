"""Random networks, random requests: after every step the tables are what their definition says, and events arrive."""

from collections import Counter

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, precondition, rule

from pleroma.errors import RoutingError
from pleroma.index import ROOT, Dz, DzSet
from pleroma.routing.balancing import BalancedTrees
from pleroma.routing.flow import FlowTable
from pleroma.routing.forest import PublisherForest
from pleroma.routing.request import Advertise, Subscribe, Unadvertise, Unsubscribe
from pleroma.routing.router import Router
from pleroma.routing.topology import Host, Link, Topology
from pleroma.switches import EmbeddedNetwork, Packet
from support import routing_oracle as oracle
from support.networks import any_mesh, seeds

DEPTH = 5
dzs = st.integers(1, (1 << DEPTH + 1) - 1).map(Dz)
regions = st.lists(dzs, min_size=1, max_size=3).map(DzSet)
points = st.integers(1 << DEPTH, (1 << DEPTH + 1) - 1).map(Dz)


@st.composite
def topologies(draw, most=6):
    """A connected network: a random tree, some more links, hosts anywhere."""
    count = draw(st.integers(1, most))
    switches = tuple(f"R{i}" for i in range(1, count + 1))
    free = dict.fromkeys(switches, 1)

    def port(switch):
        free[switch] += 1
        return free[switch] - 1

    pairs = [(draw(st.integers(0, i - 1)), i) for i in range(1, count)]
    pairs += [p for p in draw(st.lists(st.tuples(*[st.integers(0, count - 1)] * 2), max_size=3)) if p[0] != p[1]]
    latency = st.sampled_from([0.001, 0.002, 0.005])
    links = tuple(Link(switches[a], port(switches[a]), switches[b], port(switches[b]), draw(latency)) for a, b in pairs)
    homes = draw(st.lists(st.sampled_from(switches), min_size=2, max_size=6))
    hosts = tuple(Host(f"h{i}", s, port(s), f"fd00::{i + 1}") for i, s in enumerate(homes))
    return Topology(switches, hosts, links)


class Routing(RuleBasedStateMachine):
    """One tree, no limits: everything is known exactly."""

    advertisements = Bundle("advertisements")
    subscriptions = Bundle("subscriptions")
    policy = None

    @initialize(topology=topologies(), prefixes=st.lists(st.just(ROOT) | dzs, max_size=2))
    def begin(self, topology, prefixes):
        self.set_up(topology, prefixes)

    def set_up(self, topology, prefixes):
        self.whole = topology
        self.router = Router(topology, policy=self.policy)
        for prefix in prefixes:
            assert self.router.open_prefix(prefix) == []
        self.network = EmbeddedNetwork(topology)
        self.switches = {s: FlowTable() for s in topology.switches}  # what a network that follows the ops would have
        self.count = 0

    def carry_out(self, request):
        before = {s: table.copy() for s, table in self.switches.items()}
        ops = self.router.apply(request)
        self.follow(ops, before)
        self.install(ops)
        touched = Counter((op.switch, op.flow.dz) for op in ops)
        assert not touched or max(touched.values()) == 1, "a rule is changed twice"

    def install(self, ops):
        assert self.network.install(ops).refused == []
        assert self.network.flow_tables() == self.router.tables

    def follow(self, ops, before):
        """Apply one by one; in between, nothing is lost that is wanted before and after."""
        steps = [{s: table.copy() for s, table in before.items()}]
        for op in ops:
            self.switches.setdefault(op.switch, FlowTable()).apply(op)
            steps.append({s: table.copy() for s, table in self.switches.items()})
        for step in steps[1:-1]:
            for switch, table in step.items():
                for point in range(1 << DEPTH, 1 << DEPTH + 1):
                    always = ports(before.get(switch), point) & ports(steps[-1].get(switch), point)
                    assert always <= ports(table, point), "an event is lost between two operations"

    def name(self, kind):
        self.count += 1
        return f"{kind}{self.count}"

    @rule(target=advertisements, data=st.data(), region=regions)
    def advertise(self, data, region):
        host = data.draw(st.sampled_from(sorted(self.router.topology.host)), label="host")
        self.carry_out(Advertise(self.name("a"), host, region))
        return f"a{self.count}"

    @rule(target=subscriptions, data=st.data(), region=regions)
    def subscribe(self, data, region):
        host = data.draw(st.sampled_from(sorted(self.router.topology.host)), label="host")
        self.carry_out(Subscribe(self.name("s"), host, region))
        return f"s{self.count}"

    @rule(id=consumes(advertisements))
    def unadvertise(self, id):
        self.carry_out(Unadvertise(id))

    @rule(id=consumes(subscriptions))
    def unsubscribe(self, id):
        self.carry_out(Unsubscribe(id))

    @rule(prefix=dzs)
    def open_a_prefix_that_nobody_uses(self, prefix):
        if any(each.region.overlaps(prefix) for each in self.router.registrations.values()):
            return
        before = {s: table.copy() for s, table in self.switches.items()}
        ops = self.router.open_prefix(prefix)
        assert self.router.topology.limits or not ops, "opening a prefix changes rules of others"
        self.follow(ops, before)
        self.install(ops)

    @precondition(lambda self: self.whole.links)
    @rule(data=st.data())
    def change_the_network(self, data):
        cut = data.draw(st.sets(st.sampled_from(self.whole.links), max_size=2), label="cut links")
        for link in self.whole.links:
            self.network.set_link(link, link not in cut)
        self.rewire(self.whole.without(cut))

    def rewire(self, topology):
        ops = self.router.change_topology(topology)
        for op in ops:
            self.switches[op.switch].apply(op)
        self.install(ops)

    @rule(data=st.data(), point=points)
    def publish(self, data, point):
        registered = list(self.router.registrations.values())
        allowed = [a for a in registered if isinstance(a, Advertise) and a.region.covers(point)]
        if not allowed:
            return
        sender = data.draw(st.sampled_from(allowed), label="publisher").host
        reached = self.judge(sender, point, registered)
        self.network.publish(sender, Packet(point))
        assert sorted((d.host, d.packet.destination) for d in self.network.run()) == sorted(reached)

    def judge(self, sender, point, registered):
        """Send one event by hand; it reaches the hosts that want it, each once."""
        family = next(f for f in self.router.families if f.region.covers(point))
        reached = oracle.walk(self.router.topology, self.router.tables, sender, point)
        reachable = {h for h in family.tree.toward if family.tree.path(sender, h)}
        wanting = {s.host for s in registered if isinstance(s, Subscribe) and s.region.covers(point)}
        arrived = [host for host, _ in reached]
        assert len(arrived) == len(set(arrived)), "a host gets an event twice"
        assert set(arrived) >= wanting & reachable - {sender}
        assert self.router.topology.limits or set(arrived) == wanting & reachable - {sender}
        assert all(address == self.whole.host[host].address for host, address in reached)
        return reached

    @invariant()
    def tables_are_what_their_definition_says(self):
        if hasattr(self, "router"):
            assert self.switches == self.router.tables
            if self.router.topology.limits:
                self.send_everything()
            else:
                assert self.router.tables == self.defined()

    def send_everything(self):
        """Whatever anyone may send: no host gets it twice, and none misses it."""
        registered = list(self.router.registrations.values())
        here = self.router.topology.host
        for advertisement in (each for each in registered if isinstance(each, Advertise) and each.host in here):
            for point in map(Dz, range(1 << DEPTH, 1 << DEPTH + 1)):
                if advertisement.region.covers(point):
                    self.judge(advertisement.host, point, registered)

    def defined(self):
        (family,) = self.router.families
        return oracle.tables(self.router.topology, family.tree, self.router.registrations.values())

    def teardown(self):
        if hasattr(self, "router"):
            for name, registration in list(self.router.registrations.items()):
                kind = Unadvertise if isinstance(registration, Advertise) else Unsubscribe
                self.router.apply(kind(name))
            assert all(len(table) == 0 for table in self.router.tables.values()), "a rule was left behind"
            cells = [cell for _, demands in self.router._families for cell in demands._cells()]
            assert all(cell.parent is None for cell in cells), "a cell was left behind"


def ports(table, point):
    flow = table.lookup(point) if table is not None else None
    return set(flow.ports) if flow else set()


class ForestRouting(Routing):
    """Publisher-driven trees: the same promises, family by family."""

    policy = PublisherForest(limit=3)

    def defined(self):
        tables = {s: [] for s in self.router.topology.switches}
        for family in self.router.families:
            registrations = self.router.registrations.values()
            for s, table in oracle.tables(self.router.topology, family.tree, registrations, family.region).items():
                tables[s] += table
        return {s: FlowTable(flows) for s, flows in tables.items()}


class BalancedRouting(ForestRouting):
    """Prefixes dealt out to several trees: the same promises."""

    policy = BalancedTrees(limit=3, max_length=DEPTH)  # an event that no cell divides


class SmallTables:
    """Tables get small after families were made: a host gets all it wants and perhaps more, but nothing twice.

    The network begins with several trees and is crowded, or else tables would hardly ever be coarser.
    """

    @initialize(rng=seeds)
    def begin(self, rng):
        self.set_up(any_mesh(rng), [ROOT])
        hosts = sorted(self.router.topology.host)
        for _ in range(12):
            kind = rng.choice([Advertise, Subscribe])
            region = DzSet(Dz(rng.randrange(1, 1 << DEPTH + 1)) for _ in range(3))
            self.carry_out(kind(self.name("begun"), rng.choice(hosts), region))

    @rule(limit=st.sampled_from([None, 1, 2, 3, 5]))
    def have_room_for_so_many_rules(self, limit):
        self.whole = self.whole.with_limit(limit)
        self.rewire(self.router.topology.with_limit(limit))


class SmallForestRouting(SmallTables, ForestRouting):
    pass


class SmallBalancedRouting(SmallTables, BalancedRouting):
    pass


TestRouting = Routing.TestCase
TestRouting.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestForestRouting = ForestRouting.TestCase
TestForestRouting.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestBalancedRouting = BalancedRouting.TestCase
TestBalancedRouting.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestSmallForestRouting = SmallForestRouting.TestCase
crowded = settings(max_examples=40, stateful_step_count=15, deadline=None, phases=[Phase.reuse, Phase.generate])
TestSmallForestRouting.settings = crowded  # a crowd that is drawn by a seed cannot be shrunk
TestSmallBalancedRouting = SmallBalancedRouting.TestCase
TestSmallBalancedRouting.settings = crowded


@st.composite
def histories(draw):
    topology = draw(topologies())
    made, withdrawn = [], []
    for i, region in enumerate(draw(st.lists(regions, min_size=1, max_size=10))):
        kind = draw(st.sampled_from([Advertise, Subscribe]))
        made.append(kind(f"r{i}", draw(st.sampled_from([h.name for h in topology.hosts])), region))
        if draw(st.booleans()):
            withdrawn.append((Unadvertise if kind is Advertise else Unsubscribe)(f"r{i}"))
    return topology, made, withdrawn


@given(histories(), st.randoms(use_true_random=False))
def test_the_order_of_requests_does_not_matter(history, random):
    topology, made, withdrawn = history
    first = Router(topology)
    for request in (*made, *withdrawn):
        first.apply(request)
    second = Router(topology)
    random.shuffle(made)
    random.shuffle(withdrawn)
    pending = list(withdrawn)
    for request in made:
        second.apply(request)
        for leave in [w for w in pending if w.id in second.registrations and random.random() < 0.5]:
            second.apply(leave)
            pending.remove(leave)
    for request in pending:
        second.apply(request)
    assert first.tables == second.tables


@given(histories(), st.sampled_from([None, PublisherForest(limit=2)]), st.sampled_from([None, 2]))
def test_loading_all_at_once_gives_the_tables_of_one_by_one(history, policy, limit):
    topology, made, _ = history
    topology = topology.with_limit(limit)
    slow, fast = (Router(topology, policy=policy) for _ in range(2))
    for request in made:
        slow.apply(request)
    half = len(made) // 2
    switches = {s: FlowTable() for s in topology.switches}
    for op in [*fast.load(made[:half]), *fast.load(made[half:])]:
        switches[op.switch].apply(op)
    assert fast.tables == slow.tables == switches
    assert fast.registrations == slow.registrations
    with pytest.raises(RoutingError, match="in use"):
        fast.load([Subscribe("new", made[0].host, made[0].region), made[0]])
    assert fast.tables == slow.tables
    assert fast.registrations == slow.registrations
