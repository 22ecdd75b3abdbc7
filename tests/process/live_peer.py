"""A process with a socket at a live host: it attaches, and then sends or receives.

    live_peer.py receive PORT SECRET
        Prints "attached", then the destination and the packet of every frame that comes, in hexadecimal.
    live_peer.py send PORT SECRET
        Prints "attached", then sends for every line it reads, "DESTINATION PACKET" in hexadecimal.
    live_peer.py ignore PORT SECRET
        Prints "attached", and never reads again, with as small a buffer as there is.

All end when their input does; the first two detach.
"""

import selectors
import socket
import sys
from ipaddress import IPv6Address

from pleroma.wire.attach import AttachKind, pack, unpack
from pleroma.wire.tunnel import unwrap, wrap


def attached(port, secret, buffer=4 << 20):
    opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    opened.connect(("127.0.0.1", port))
    opened.settimeout(10)
    opened.send(pack(AttachKind.ATTACH, secret))
    assert unpack(opened.recv(2000)) == (AttachKind.ATTACHED, secret)
    print("attached", flush=True)
    return opened


def send(opened):
    for line in sys.stdin:
        destination, packet = map(bytes.fromhex, line.split())
        opened.send(wrap(IPv6Address(destination), packet))


def receive(opened):
    with selectors.DefaultSelector() as selector:
        selector.register(opened, selectors.EVENT_READ)
        selector.register(sys.stdin, selectors.EVENT_READ)
        while True:
            ready = [key.fileobj for key, _ in selector.select()]
            if opened in ready:
                destination, packet = unwrap(opened.recv(2000))
                print(destination.packed.hex(), packet.hex(), flush=True)
            elif sys.stdin in ready:
                return


def main(role, port, secret):
    key = bytes.fromhex(secret)
    with attached(int(port), key, 1 if role == "ignore" else 4 << 20) as opened:
        if role == "ignore":
            sys.stdin.read()
            return
        send(opened) if role == "send" else receive(opened)
        opened.send(pack(AttachKind.DETACH, key))


main(*sys.argv[1:])
