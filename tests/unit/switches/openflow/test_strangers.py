from pleroma.switches.openflow.connection import Connection
from pleroma.switches.openflow.strangers import MAX_STRANGERS, Strangers


def stranger(number):
    connection = Connection()
    connection.datapath = number
    connection.channel.peer = f"10.0.0.{number % 7}:1"
    return connection


def test_the_last_ones_are_remembered_and_who_comes_again_is_among_the_last():
    strangers = Strangers()
    for number in range(MAX_STRANGERS):
        strangers.turned_away(stranger(number), "unknown")
    error = strangers.turned_away(stranger(0), "again")
    assert (error.reason, error.field, error.value) == ("again", "switch", 0)
    strangers.turned_away(stranger(MAX_STRANGERS), "unknown")
    assert list(strangers.by_datapath) == [*range(2, MAX_STRANGERS), 0, MAX_STRANGERS]
    assert strangers.by_datapath[0] == "10.0.0.0:1: again"
