"""A writer reduced to its log: appends as fast as it can until its input ends, and says what became of each entry.

Arguments: the log, the name of the writer, and how many entries go into one append. A line is `ready`, or a verdict,
the number of the first entry of the append, the count, and for `done` its position.
"""

import sys
import threading

from pleroma.control.log.etcd import EtcdLog
from pleroma.errors import LogError, LogUnclear


def main(url, name, count):
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    with EtcdLog.open(url) as log:
        print("ready", flush=True)
        number = 1
        while not ended.is_set():
            try:
                first = log.append([f"{name}-{number + n}".encode() for n in range(count)])
                print("done", number, count, first, flush=True)
            except LogUnclear:
                print("unclear", number, count, flush=True)
            except LogError:
                print("refused", number, count, flush=True)
            number += count


main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
