"""Claims an office and keeps it until its input ends. Arguments: the log and the name of the office.

It says `held GENERATION`, and `lost` as soon as it knows.
"""

import sys

import structlog

from pleroma.control.log.etcd import EtcdLease, EtcdLog

structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
with EtcdLog.open(sys.argv[1]) as log:
    lease = log.office(sys.argv[2]).claim(b"a process", 2, lambda: print("lost", flush=True))
    assert isinstance(lease, EtcdLease)
    print("held", lease.generation, flush=True)
    sys.stdin.read()
    print("still" if lease.is_held else "no longer", flush=True)
    lease.release()
