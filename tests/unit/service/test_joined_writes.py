"""An answer goes to its connection in one piece, unless its body comes later."""

import asyncio

from pleroma.service.http.connections.joined_writes import JoinedWrites
from support.waiting import run


class Connection:
    def __init__(self):
        self.written, self.closed = [], False

    def write(self, data):
        assert not self.closed
        self.written.append(bytes(data))

    def close(self):
        self.closed = True

    def is_closing(self):
        return self.closed


def test_a_head_goes_out_with_the_body_that_follows_at_once():
    async def main():
        connection = Connection()
        answer = JoinedWrites(connection)
        answer.write(b"head ")
        assert connection.written == []
        answer.write(b"body")
        answer.write(b"more")
        await asyncio.sleep(0)
        assert connection.written == [b"head body", b"more"]

    run(main)


def test_a_head_without_a_body_goes_out_by_itself():
    async def main():
        connection = Connection()
        answer = JoinedWrites(connection)
        answer.write(b"head")
        await asyncio.sleep(0)
        answer.write(b"late")
        assert connection.written == [b"head", b"late"]

    run(main)


def test_nothing_is_held_back_when_the_connection_is_closed():
    async def main():
        connection = Connection()
        answer = JoinedWrites(connection)
        answer.write(b"head")
        answer.close()
        assert (connection.written, answer.is_closing()) == ([b"head"], True)
        gone = JoinedWrites(Connection())
        gone.write(b"head")
        gone._transport.closed = True
        await asyncio.sleep(0)
        assert gone._transport.written == []

    run(main)
