"""The sockets that a service listens at: one port for connections and datagrams, and clear errors."""

import socket

import pytest

from pleroma.errors import SetupError
from pleroma.service.listening import bind_tcp, bind_tcp_and_udp, found_at, url_of

HERE = "127.0.0.1"


def test_connections_and_datagrams_have_the_same_free_port():
    listening, datagrams = bind_tcp_and_udp(HERE, 0)
    with listening, datagrams:
        assert listening.getsockname() == datagrams.getsockname()
        assert (listening.type, datagrams.type) == (socket.SOCK_STREAM, socket.SOCK_DGRAM)
        assert url_of(listening) == f"http://{HERE}:{listening.getsockname()[1]}"


def test_a_port_that_is_taken_for_datagrams_only_is_taken():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind((HERE, 0))
        port = other.getsockname()[1]
        with pytest.raises(SetupError, match="cannot listen") as error:
            bind_tcp_and_udp(HERE, port)
    assert (error.value.field, error.value.value) == ("port", port)
    bind_tcp(HERE, port).close()  # and the socket for connections was given up


def test_an_ipv6_address_has_brackets_in_the_url():
    with bind_tcp("::1", 0) as listening:
        assert url_of(listening) == f"http://[::1]:{listening.getsockname()[1]}"


@pytest.mark.parametrize("known", ["http://127.0.0.1:2379", "https://localhost:2379"])
def test_who_listens_everywhere_is_found_where_it_comes_from(known):
    with bind_tcp("0.0.0.0", 0) as listening:  # noqa: S104
        assert found_at(listening, known) == HERE
        assert url_of(listening, "https", HERE) == f"https://{HERE}:{listening.getsockname()[1]}"
    with bind_tcp(HERE, 0) as listening:
        assert found_at(listening, "http://203.0.113.1:2379") == HERE


def test_who_cannot_be_found_is_told_to_name_an_address():
    with bind_tcp("0.0.0.0", 0) as listening, pytest.raises(SetupError, match="name an address") as error:  # noqa: S104
        found_at(listening, "http://nobody.invalid:2379")
    assert error.value.field == "host"
