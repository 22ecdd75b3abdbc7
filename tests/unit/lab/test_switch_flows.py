"""Lines of `ovs-ofctl dump-flows`, taken apart."""

import pytest

from pleroma.errors import SetupError
from pleroma.lab.switch_flows import SwitchFlow, read_flow


@pytest.mark.parametrize(
    ("line", "flow"),
    [
        (
            " cookie=0x504c524d00000000, duration=2.5s, table=1, n_packets=3, n_bytes=321, idle_age=1, "
            "priority=116,udp6,ipv6_dst=ff0e::/16 actions=set_field:fd00::2->ipv6_dst,output:1",
            SwitchFlow(1, 116, 3, 321, "udp6,ipv6_dst=ff0e::/16", "set_field:fd00::2->ipv6_dst,output:1"),
        ),
        (
            "cookie=0x0, duration=1s, table=0, n_packets=0, n_bytes=0, priority=0 actions=drop",
            SwitchFlow(0, 0, 0, 0, "everything", "drop"),
        ),
        ("cookie=0x0, duration=1s, table=0, n_packets=1, n_bytes=2, in_port=1 actions=output:2",
         SwitchFlow(0, 32768, 1, 2, "in_port=1", "output:2")),
    ],
)  # fmt: skip
def test_a_rule_has_its_priority_counters_match_and_actions(line, flow):
    assert read_flow(line) == flow


def test_what_is_no_rule_is_refused():
    with pytest.raises(SetupError):
        read_flow("NXST_FLOW reply (xid=0x4):")
