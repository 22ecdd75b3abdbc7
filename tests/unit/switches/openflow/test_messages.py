import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pleroma.errors import SetupError, SwitchError
from pleroma.switches.openflow import messages, replies
from pleroma.switches.openflow.listener import tls_context
from support.openflow_switch import ScriptedSwitch, plain
from support.openflow_wire import PROTOCOLS, versions, xids


@given(
    versions,
    xids,
    st.integers(0, 2**32 - 1),
    st.sampled_from([messages.BUNDLE_OPEN, messages.BUNDLE_COMMIT, messages.BUNDLE_DISCARD]),
)
def test_bundle_control_as_the_standard_and_its_extension_draw_it(version, xid, bundle, action):
    body = struct.pack("!IHH", bundle, action, 3)
    extended = plain(4, 4, xid, struct.pack("!II", 0x4F4E4600, 2300) + body)
    assert messages.bundle_control(version, xid, bundle, action) == (
        extended if version == 4 else plain(5, 33, xid, body)
    )
    answer = messages.bundle_control(version, xid, bundle, action + 1)
    assert replies.bundle_reply(answer) == (bundle, action + 1)


@given(versions, xids, st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_flows_are_asked_for_and_wiped_by_cookie(version, xid, cookie, mask):
    anything = struct.pack("!HH4x", 1, 4)
    asked = messages.flow_stats_request(version, xid, cookie, mask, None)
    body = struct.pack("!B3xII4xQQ", 255, 0xFFFFFFFF, 0xFFFFFFFF, cookie, mask) + anything
    assert asked == plain(version, 18, xid, struct.pack("!HH4x", 1, 0) + body)
    wiped = messages.wipe(version, xid, cookie, mask)
    assert wiped[8:26] == struct.pack("!QQBB", cookie, mask, 255, 3)


@pytest.mark.parametrize(
    ("version", "kind", "code", "names"),
    [
        (5, 5, 1, ("OFPET_FLOW_MOD_FAILED", "OFPFMFC_TABLE_FULL")),
        (4, 5, 1, ("OFPET_FLOW_MOD_FAILED", "OFPFMFC_TABLE_FULL")),
        (1, 3, 0, ("OFPET_FLOW_MOD_FAILED", "OFPFMFC_ALL_TABLES_FULL")),
        (6, 17, 4, ("OFPET_BUNDLE_FAILED", "OFPBFC_BUNDLE_CLOSED")),
        (2, 5, 1, ("type 5", "code 1")),
        (5, 99, 98, ("type 99", "code 98")),
        (5, 5, 98, ("OFPET_FLOW_MOD_FAILED", "code 98")),
    ],
)
def test_an_error_is_named_by_the_version_in_its_own_header(version, kind, code, names):
    refusal = replies.error_message(plain(version, 1, 3, struct.pack("!HH", kind, code) + b"why"))
    assert refusal == (3, *names, b"why")


def test_a_port_of_length_zero_is_an_error_and_no_endless_loop():
    port = bytearray(ScriptedSwitch(5).port(1, "eth1", 0, 0))
    port[4:6] = bytes(2)
    with pytest.raises(SwitchError, match="length"):
        replies.ports(5, bytes(port))


def test_a_name_that_is_no_text_is_shown_as_well_as_it_can_be():
    port = ScriptedSwitch(5).port(1, "eth1", 0, 0).replace(b"eth1", b"\xff\xfe\0x")
    assert replies.ports(5, port)[0].name == "��"


def test_a_packet_that_no_message_has_room_for_is_refused():
    assert len(messages.packet_out(5, 1, 1, bytes(65_495))) == 65_535
    with pytest.raises(SwitchError, match="room"):
        messages.packet_out(5, 1, 1, bytes(65_496))


def test_a_hello_offers_both_versions():
    message = messages.hello(1)
    read = PROTOCOLS[5].ofproto_parser.OFPHello.parser(PROTOCOLS[5], 5, 0, len(message), 1, message)
    assert read.elements[0].versions == [4, 5]


def test_certificates_that_are_not_there_are_a_matter_of_setup(tmp_path):
    with pytest.raises(SetupError):
        tls_context(tmp_path / "cert.pem", tmp_path / "key.pem", tmp_path / "ca.pem")
