"""Sends or counts events at a host, in a process of its own.

_stream.py send ADDRESS PORT RATE COUNT | _stream.py count ADDRESS PORT
"""

import socket
import sys
import time

IDLE_SECONDS = 1.0
SO_RCVBUFFORCE = 33


def send(address: str, port: int, rate: float, count: int) -> None:
    """Prints the seconds that it took, which are more than they should be if it cannot keep up."""
    sending = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    sending.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, socket.if_nametoindex("eth0"))
    sending.connect((address, port))
    payload = bytes(100)
    begun = time.perf_counter()
    for number in range(count):
        due = begun + number / rate
        while (early := due - time.perf_counter()) > 0:
            if early > 0.0005:
                time.sleep(early / 2)
        sending.send(payload)
    print(time.perf_counter() - begun, flush=True)


def count(address: str, port: int) -> None:
    """Prints "ready", and how many came once no more do."""
    receiving = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    receiving.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
    receiving.bind((address, port))
    print("ready", flush=True)
    found = 0
    receiving.settimeout(10.0)
    while True:
        try:
            receiving.recv(2000)
        except TimeoutError:
            break
        found += 1
        if found == 1:
            receiving.settimeout(IDLE_SECONDS)
    print(found, flush=True)


if __name__ == "__main__":
    what, address, port, *rest = sys.argv[1:]
    if what == "send":
        send(address, int(port), float(rest[0]), int(rest[1]))
    else:
        count(address, int(port))
