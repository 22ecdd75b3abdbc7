"""Everything that can go wrong, in one tree.

    PleromaError
    ├── ContentError        a value, an event, a filter or a schema is not valid
    │   ├── SchemaError     a schema file or definition
    │   ├── DomainError     a value outside its attribute's domain, or of the wrong type
    │   ├── UnknownName     an attribute or category nobody defined
    │   ├── NoValue         an event has no value of this name (also a KeyError)
    │   ├── FilterSyntax    text or JSON that is not a filter
    │   └── FilterTooCostly a filter that takes more work than is allowed
    ├── IndexingError       dz, indexes and plans
    │   ├── DzError         not a bit string, or too long for where it is used
    │   ├── PlanError       a plan that is damaged or does not fit its schema
    │   └── AddressError    an address outside the reserved range
    ├── WireError           bytes that are not a packet, or what no packet has room for
    ├── TopologyError       a network that cannot be built
    ├── RoutingError        a request or a flow operation that does not fit the state
    │   ├── TableFull       a switch has no room for a rule
    │   └── ForwardingLoop  tables that send an event round in circles
    ├── SwitchError         a switch that is spoken to by OpenFlow
    │   ├── SwitchRefused   it said no, and why: nothing of the request is in force
    │   ├── SwitchSilent    no answer in time: what it did is not known
    │   ├── SwitchGone      the connection ended: what it did is not known
    │   └── SwitchFenced    it obeys a later controller: this one changes nothing any more
    ├── LogError            the controller's durable log
    │   ├── LogLocked       another controller has it open
    │   ├── ForeignLog      a file that is no log, or one of a later version
    │   ├── LogElsewhere    it was moved, and goes on elsewhere
    │   ├── LogDamaged      stored bytes are not what was written
    │   ├── EntriesDropped  entries that compaction has removed
    │   ├── DiskFull        no room to make an entry durable
    │   ├── LogAway         nobody who keeps the log answers: nothing was done
    │   ├── LogUnclear      no answer in time: whether it was done is not known
    │   └── LogRefused      the store under the log said no, and why: nothing was done
    ├── ControlError        a request that the controller does not carry out
    │   ├── NotAllowed      beyond the rights of the one who asks
    │   ├── LimitReached    there are as many as there may be
    │   ├── AlreadyThere    the name is taken
    │   ├── NotThere        nothing has this name or id
    │   ├── KeyConflict     the key belongs to another request
    │   ├── PlanChanging    a plan is on its way to the next
    │   ├── PlanMoved       the plan in force is not the one that was expected
    │   ├── PlanTooOld      a plan that no switch follows any more
    │   ├── NoTree          a plan that cannot be shown as one tree
    │   ├── NotInstalled    durable, but the network has not confirmed it yet
    │   ├── NotLeading      another process leads the control plane
    │   ├── ControllerClosed  it takes no more requests
    │   └── OtherControl    a log made with other settings, or for another network
    ├── ClientError         what a publisher or a subscriber runs into
    │   ├── OutsideAdvertisement  an event that its publisher did not promise
    │   ├── BufferFull      too many events wait to be sent
    │   ├── RequestRefused  the controller said no, and why
    │   ├── ControllerAway  nobody answers
    │   └── ClientClosed    used after it was closed
    ├── ServiceError        a request to the HTTP API
    │   ├── BadRequest      it is not what the address takes
    │   ├── NotAuthenticated  no token, or one that nobody has
    │   │   └── TokenExpired      a token that has ended
    │   ├── NotFound        nothing there that the caller may see
    │   ├── TooLarge        more bytes than a request may have
    │   ├── TooFast         more requests than a caller may make
    │   └── NotReady        the service cannot do what it is for at the moment
    ├── MatchingError       a matcher's subscriptions, or a snapshot of them
    ├── TuningError         nothing to learn from, or more asked for than there is
    ├── WorkloadError       impossible generator settings, unreadable data sets
    ├── LakeError           what was collected: missing, unreadable or of something else
    │   └── DamagedFile     a file or a row of the lake that is not what it should be: the rest can be read without it
    ├── SparkError          a job that Spark gave up
    └── SetupError          something this machine lacks

Each carries the offending field and value, so that a program can react and a person reads one line.
"""

from __future__ import annotations

import copyreg
import reprlib
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from pleroma.near_names import MAX_COMPARED_NAMES, near_name

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxlong = _SHORT.maxother = 60
_SHORT.maxlevel = 1


def shown(value: object) -> str:
    """A value as an error quotes it: on one line, and short however large the value."""
    try:
        return _SHORT.repr(value)
    except ValueError:  # Python does not print integers of thousands of digits
        return "an enormous number"


class PleromaError(Exception):
    """One clear reason, the field it concerns, and the value that was refused."""

    def __init__(self, reason: str, *, field: str | None = None, value: object = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.field = field
        self.value = value

    def __reduce__(self) -> tuple[Any, ...]:
        # as it stands, whatever arguments a subclass takes: errors travel between processes
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]

    def __str__(self) -> str:
        text = f"{self.field}: {self.reason}" if self.field else self.reason
        return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


class ContentError(PleromaError):
    """A value, event, filter or schema is not valid. `position` is set where there is a text."""

    position: int | None = None

    def at(self, position: int) -> ContentError:
        """The same error, pointing at a place (counted from 1) in the text it came from."""
        if self.position is None:
            self.position = position
        return self

    def __str__(self) -> str:
        text = super().__str__()
        return text if self.position is None else f"at {self.position}: {text}"


class SchemaError(ContentError):
    pass


class DomainError(ContentError):
    pass


class UnknownName(ContentError):
    """A name that is not defined, with the nearest one that is."""

    def __init__(self, what: str, name: str, known: Iterable[str], *, field: str | None = None) -> None:
        names = list(islice(known, MAX_COMPARED_NAMES))
        meant = near_name(name, names)
        hint = f"did you mean {shown(meant)}?" if meant else f"known: {', '.join(names[:8]) or 'none'}"
        super().__init__(f"unknown {what} {shown(name)}; {hint}", field=field, value=name)
        self.suggestion = meant


class NoValue(ContentError, KeyError):
    """An event lacks an optional attribute, or its schema has no attribute of the name."""


class FilterSyntax(ContentError):
    pass


class FilterTooCostly(ContentError):
    """To read the filter, or to compare it with what is allowed, takes more work than a stranger may ask for."""


class IndexingError(PleromaError):
    pass


class DzError(IndexingError):
    pass


class PlanError(IndexingError):
    pass


class AddressError(IndexingError):
    pass


class WireError(PleromaError):
    pass


class TopologyError(PleromaError):
    pass


class RoutingError(PleromaError):
    pass


class TableFull(RoutingError):
    pass


class ForwardingLoop(RoutingError):
    """`path` names the switches in the order of the visit; at least one of them comes twice."""

    def __init__(self, path: Sequence[str], dz: object) -> None:
        self.path = tuple(path)
        super().__init__(f"the tables send {dz} in a loop: {' > '.join(path)}", field=path[-1], value=self.path)


class SwitchError(PleromaError):
    pass


class SwitchRefused(SwitchError):
    """`kind` and `code` are OpenFlow's names of the error, `index` which change of a bundle it is about, if any."""

    def __init__(self, reason: str, *, kind: str, code: str, index: int | None = None, value: object = None) -> None:
        super().__init__(reason, field="switch", value=value)
        self.kind = kind
        self.code = code
        self.index = index


class SwitchSilent(SwitchError):
    pass


class SwitchGone(SwitchError):
    pass


class SwitchFenced(SwitchError):
    """A switch obeys a controller of a later generation. Whoever meets this has been replaced, and steps down."""


class LogError(PleromaError):
    pass


class LogLocked(LogError):
    pass


class ForeignLog(LogError):
    pass


class LogElsewhere(LogError):
    pass


class LogDamaged(LogError):
    pass


class EntriesDropped(LogError):
    pass


class DiskFull(LogError):
    pass


class LogAway(LogError):
    pass


class LogUnclear(LogError):
    pass


class LogRefused(LogError):
    pass


class ControlError(PleromaError):
    pass


class NotAllowed(ControlError):
    """`allowed` says what would be."""

    def __init__(self, reason: str, *, field: str, value: object, allowed: str) -> None:
        super().__init__(reason, field=field, value=value)
        self.allowed = allowed


class LimitReached(ControlError):
    pass


class AlreadyThere(ControlError):
    pass


class NotThere(ControlError):
    pass


class PlanChanging(ControlError):
    """The plan of a schema is on its way to the next; another change has to wait."""


class PlanMoved(ControlError):
    """A plan was to follow a certain one, and another is in force."""


class PlanTooOld(ControlError):
    """A client uses a plan that is two behind the one in force, which no switch follows any more."""


class NoTree(ControlError):
    """The plan in force is not one tree of cuts."""


class KeyConflict(ControlError):
    pass


class NotInstalled(ControlError):
    pass


class NotLeading(ControlError):
    """Another process leads the control plane: this one may not tell the switches anything."""


class ControllerClosed(ControlError):
    pass


class OtherControl(ControlError):
    pass


class ClientError(PleromaError):
    pass


class OutsideAdvertisement(ClientError):
    """`allowed` is the advertised filter, as text."""

    def __init__(self, event: object, allowed: str) -> None:
        super().__init__(f"{event} is outside what was advertised: {allowed}", field="event", value=event)
        self.allowed = allowed


class BufferFull(ClientError):
    """`events` wait to be sent, of `bytes` together; `numbers` are those that `publish_many` had given out before."""

    def __init__(self, events: int, bytes: int) -> None:
        reason = f"{events:,} events ({bytes:,} bytes) wait to be sent, and there is room for no more"
        super().__init__(reason, field="buffer", value=events)
        self.events = events
        self.bytes = bytes
        self.numbers: tuple[int, ...] = ()


class RequestRefused(ClientError):
    """An answer of the controller: `status` as in HTTP, `code` for programs, `allowed` what would be.

    `retry_after` is how many seconds it asked to wait.
    """

    def __init__(
        self,
        reason: str,
        *,
        status: int,
        code: str,
        field: str | None = None,
        value: object = None,
        allowed: object = None,
        retry_after: float = 0.0,
    ) -> None:
        super().__init__(reason, field=field, value=value)
        self.status = status
        self.code = code
        self.allowed = allowed
        self.retry_after = retry_after


class ControllerAway(ClientError):
    was_asked = True
    """False where there was no connection, so that the request cannot have been carried out."""


class ClientClosed(ClientError):
    pass


class ServiceError(PleromaError):
    pass


class BadRequest(ServiceError):
    pass


class NotAuthenticated(ServiceError):
    pass


class TokenExpired(NotAuthenticated):
    pass


class NotFound(ServiceError):
    pass


class TooLarge(ServiceError):
    pass


class TooFast(ServiceError):
    """`seconds` is how long to wait."""

    def __init__(self, reason: str, seconds: float) -> None:
        super().__init__(reason)
        self.seconds = seconds


class NotReady(ServiceError):
    pass


class MatchingError(PleromaError):
    pass


class TuningError(PleromaError):
    pass


class WorkloadError(PleromaError):
    pass


class LakeError(PleromaError):
    pass


class DamagedFile(LakeError):
    pass


class SparkError(PleromaError):
    pass


class SetupError(PleromaError):
    pass
