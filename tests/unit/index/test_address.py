"""The papers' own addresses."""

import pytest

from pleroma.errors import AddressError, DzError
from pleroma.index import IPV4, IPV6, ROOT, AddressRange, Dz


@pytest.mark.parametrize(
    ("dz", "prefix"),
    [
        ("110", "ff0e:c000::/19"),
        ("101101", "ff0e:b400::/22"),
        ("101", "ff0e:a000::/19"),
        ("", "ff0e::/16"),
    ],
)
def test_ipv6_prefixes_of_the_article(dz, prefix):
    assert str(IPV6.prefix(Dz.parse(dz))) == prefix
    assert IPV6.dz(prefix) == Dz.parse(dz)


@pytest.mark.parametrize(
    ("dz", "prefix"), [("0101", "225.168.0.0/13"), ("01011", "225.172.0.0/14"), ("000", "225.128.0.0/12")]
)
def test_ipv4_prefixes_of_the_masters_thesis(dz, prefix):
    assert str(IPV4.prefix(Dz.parse(dz))) == prefix
    assert IPV4.dz(prefix) == Dz.parse(dz)


def test_the_bachelors_thesis_has_a_wider_ipv4_base():
    wide = AddressRange.parse("225.0.0.0/8")
    assert wide.bits == 24
    assert str(wide.prefix(Dz.parse("101"))) == "225.160.0.0/11"
    assert str(wide.address(Dz.parse("101101"))) == "225.180.0.0"


def test_an_event_is_an_address_under_its_prefix():
    event = IPV6.address(Dz.parse("110010"))
    assert str(event) == "ff0e:c800::"
    assert event in IPV6.prefix(Dz.parse("110"))
    assert IPV6.dz(event, 6) == Dz.parse("110010")
    assert IPV6.dz("ff0e:c800::", 3) == Dz.parse("110")


def test_room():
    assert (IPV6.bits, IPV4.bits) == (112, 23)
    assert IPV6.dz(IPV6.address(ROOT)).length == 112


def test_bad_input():
    with pytest.raises(DzError, match="room for 23"):
        IPV4.prefix(Dz(1 << 24))
    for base in ("10.0.0.0/8", "2001:db8::/32", "225.128.0.1/9", "nonsense", "225.128.0.0/99"):
        with pytest.raises(AddressError):
            AddressRange.parse(base)
    for place in ("10.0.0.0/9", "ff0e::/20", "225.0.0.0/8", "x"):
        with pytest.raises(AddressError):
            IPV4.dz(place)
    with pytest.raises(AddressError):
        IPV4.dz("225.128.0.0", 24)
