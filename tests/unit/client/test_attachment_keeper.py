"""How a client stays attached: another link when one is lost, at the same host if there is one, and what is counted."""

import asyncio

import pytest

from pleroma.client.api import Answer
from pleroma.client.links.network_link import HostAttachment
from pleroma.client.session import attachment_keeper
from pleroma.client.session.attachment_keeper import AttachmentKeeper
from pleroma.client.session.receiver import Receiver
from pleroma.errors import ClientClosed, ControllerAway, RequestRefused


class Link:
    """A link that is lost when the test says so."""

    grants = True

    def __init__(self, attachment):
        self.attachment = attachment
        self.overrun = 0
        self.doubts = 0
        self.is_closed = False
        self.lost = asyncio.Event()

    async def attach(self):
        if isinstance(self.grants, Exception):
            raise self.grants
        return self.grants

    async def stay(self):
        await self.lost.wait()

    def doubt(self):
        self.doubts += 1

    def close(self):
        self.is_closed = True
        self.overrun = 0  # a closed socket cannot tell


class Api:
    """Answers each request for an attachment with what comes next: the name of a host, or an error."""

    host = "controller"
    url = "http://controller"

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    async def ask(self, method, path, *, patience):
        self.asked.append((method, path, patience))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        body = {"host": answer, "port": 7, "secret": "00" * 16, "seconds": 30}
        return Answer(200, body, None, "controller")


@pytest.fixture
def links(monkeypatch):
    """The links that were opened."""
    opened = []

    def open_link(attachment, receive, echo, charge):
        assert (receive.__name__, echo.__name__, charge.__name__) == ("receive", "echo", "charge")
        opened.append(Link(attachment))
        return opened[-1]

    monkeypatch.setattr(attachment_keeper, "open_link", open_link)
    monkeypatch.setattr(attachment_keeper.Backoff, "pause", lambda _: 0.0)
    return opened


def refused(status):
    return RequestRefused("no", status=status, code="no")


def run(work):
    async def limited():
        async with asyncio.timeout(10):
            await work

    asyncio.run(limited())


def hosts_of(api):
    return [path.split("/")[3] for _, path, _ in api.asked]


async def lost_once(keeper):
    """Attach, lose the link, and return the links that `on_return` got once the client is connected again."""
    returned, back = [], asyncio.Event()

    async def on_return(link):
        assert not keeper.is_connected
        returned.append(link)
        back.set()

    first = await keeper.attach(3.0)
    first.overrun = 5
    staying = asyncio.create_task(keeper.stay(on_return))
    first.lost.set()
    waiting = asyncio.create_task(back.wait())
    await asyncio.wait([staying, waiting], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if staying.done():
        await staying
    await keeper.connected()
    staying.cancel()
    return returned


def test_the_first_attachment_is_asked_for_with_patience_under_the_lease(links):
    async def work():
        api = Api("h 1")
        keeper = AttachmentKeeper(api, "my-lease", "h 1", Receiver())
        assert (keeper.is_connected, keeper.host, keeper.overrun) == (False, None, 0)
        waiting = asyncio.create_task(keeper.connected())
        await asyncio.sleep(0.01)
        assert not waiting.done()
        link = await keeper.attach(3.0)
        await waiting
        assert api.asked == [("POST", "/v1/hosts/h%201/attachments?lease=my-lease&tags=true", 3.0)]
        assert keeper.link() is link is links[0]
        assert link.attachment == HostAttachment("h 1", ("controller", 7), 30.0, secret=bytes(16))
        assert (keeper.is_connected, keeper.host) == (True, "h 1")

    run(work())


@pytest.mark.parametrize("failure", [False, OSError("no")])
def test_a_link_that_the_network_does_not_accept_is_closed(monkeypatch, links, failure):
    async def work():
        monkeypatch.setattr(Link, "grants", failure)
        keeper = AttachmentKeeper(Api("h1"), "lease", "any", Receiver())
        with pytest.raises(OSError if failure else ControllerAway):
            await keeper.attach(0.0)
        assert links[0].is_closed
        assert not keeper.is_connected

    run(work())


def test_a_lost_link_is_closed_and_replaced_by_one_at_the_same_host_and_its_drops_stay_counted(links):
    async def work():
        api = Api("h1", "h1")
        keeper = AttachmentKeeper(api, "lease", "any", Receiver())
        returned = await lost_once(keeper)
        assert hosts_of(api) == ["any", "h1"]
        assert returned == [links[1]] == [keeper.link()]
        assert (links[0].is_closed, links[1].is_closed) == (True, False)
        links[1].overrun = 2
        assert keeper.overrun == 7
        keeper.close()
        assert (keeper.overrun, keeper.is_connected, keeper.host) == (7, False, None)
        with pytest.raises(ClientClosed):
            keeper.link()

    run(work())


@pytest.mark.usefixtures("links")
def test_if_its_host_is_gone_the_client_takes_any_unless_it_asked_for_that_one():
    async def work():
        api = Api("h1", refused(404), "h2")
        await lost_once(AttachmentKeeper(api, "lease", "any", Receiver()))
        assert hosts_of(api) == ["any", "h1", "any"]
        api = Api("h1", refused(404), refused(404), "h1")
        await lost_once(AttachmentKeeper(api, "lease", "h1", Receiver()))
        assert hosts_of(api) == ["h1"] * 4

    run(work())


@pytest.mark.usefixtures("links")
def test_if_there_is_no_host_at_all_it_asks_again_and_again_with_pauses(monkeypatch):
    paused = []
    monkeypatch.setattr(attachment_keeper.Backoff, "pause", lambda _: paused.append(1) or 0.0)

    async def work():
        api = Api("h1", refused(404), refused(404), refused(503), ControllerAway("away"), "h2")
        keeper = AttachmentKeeper(api, "lease", "any", Receiver())
        await lost_once(keeper)
        assert hosts_of(api) == ["any", "h1", "any", "any", "any", "any"]
        assert [patience for _, _, patience in api.asked] == [3.0, *[0.0] * 5]
        assert len(paused) == 3

    run(work())


@pytest.mark.usefixtures("links")
@pytest.mark.parametrize("status", [401, 403])
def test_a_client_that_may_not_attach_any_more_gives_up(status):
    async def work():
        keeper = AttachmentKeeper(Api("h1", refused(status)), "lease", "any", Receiver())
        with pytest.raises(RequestRefused):
            await lost_once(keeper)
        assert not keeper.is_connected

    run(work())


@pytest.mark.usefixtures("links")
def test_a_doubt_goes_to_the_link_of_the_moment_and_without_one_to_nobody():
    async def work():
        keeper = AttachmentKeeper(Api("h1"), "lease", "any", Receiver())
        keeper.doubt()
        link = await keeper.attach(0.0)
        keeper.doubt()
        assert link.doubts == 1
        keeper.close()
        assert link.is_closed
        keeper.doubt()
        keeper.close()
        assert link.doubts == 1

    run(work())
