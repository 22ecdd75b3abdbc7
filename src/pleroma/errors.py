"""Everything that can go wrong, in one tree.

    PleromaError
    ├── ContentError        a value, an event, a filter or a schema is not valid
    │   ├── SchemaError     a schema file or definition
    │   ├── DomainError     a value outside its attribute's domain, or of the wrong type
    │   ├── UnknownName     an attribute or category nobody defined
    │   └── FilterSyntax    text or JSON that is not a filter
    ├── IndexingError       dz, indexes and plans
    │   ├── DzError         not a bit string, or too long for where it is used
    │   ├── PlanError       a plan that is damaged or does not fit its schema
    │   └── AddressError    an address outside the reserved range
    ├── WireError           bytes that are not a packet, or what no packet has room for
    ├── TopologyError       a network that cannot be built
    ├── RoutingError        a request or a flow operation that does not fit the state
    │   ├── TableFull       a switch has no room for a rule
    │   └── ForwardingLoop  tables that send an event round in circles
    ├── LogError            the controller's durable log
    │   ├── LogLocked       another controller has it open
    │   ├── ForeignLog      a file that is no log, or one of a later version
    │   ├── LogDamaged      stored bytes are not what was written
    │   ├── EntriesDropped  entries that compaction has removed
    │   └── DiskFull        no room to make an entry durable
    ├── TuningError         nothing to learn from, or more asked for than there is
    ├── WorkloadError       impossible generator settings, unreadable data sets
    └── SetupError          something this machine lacks

Each carries the offending field and value, so that a program can react and a person reads one line.
"""

from __future__ import annotations

import copyreg
import difflib
import reprlib
from collections.abc import Iterable, Sequence
from typing import Any

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
        names = list(known)
        folded = {each.lower(): each for each in names}
        near = [folded[match] for match in difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.5)]
        hint = f"did you mean {shown(near[0])}?" if near else f"known: {', '.join(names[:8]) or 'none'}"
        super().__init__(f"unknown {what} {shown(name)}; {hint}", field=field, value=name)
        self.suggestion = near[0] if near else None


class FilterSyntax(ContentError):
    pass


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


class LogError(PleromaError):
    pass


class LogLocked(LogError):
    pass


class ForeignLog(LogError):
    pass


class LogDamaged(LogError):
    pass


class EntriesDropped(LogError):
    pass


class DiskFull(LogError):
    pass


class TuningError(PleromaError):
    pass


class WorkloadError(PleromaError):
    pass


class SetupError(PleromaError):
    pass
