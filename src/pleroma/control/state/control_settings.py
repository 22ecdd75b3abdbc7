"""The settings of a control plane. A log depends on them: with others, the same commands would give other regions."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from pleroma.errors import ControlError
from pleroma.index import DEFAULT_MEMBERS, MAX_LENGTH, MAX_MEMBERS


@dataclass(frozen=True, slots=True)
class ControlSettings:
    """`schema_bits` bits at the front of every dz tell schemas apart."""

    schema_bits: int = 6
    max_members: int = DEFAULT_MEMBERS
    """Dz per registration that the first plan of a new schema allows. The log keeps the one that it began with."""
    default_bits: int = 56
    max_length: int = MAX_LENGTH

    def __post_init__(self) -> None:
        bounds = {
            "schema_bits": (0, 16),
            "max_members": (1, MAX_MEMBERS),
            "max_length": (self.schema_bits, MAX_LENGTH),
            "default_bits": (0, self.max_length - self.schema_bits),
        }
        for name, (lowest, highest) in bounds.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
                raise ControlError(f"is a number from {lowest} to {highest}, not {value!r}", field=name, value=value)

    @classmethod
    def within(cls, bits: int) -> ControlSettings:
        """The defaults, cut down to what fits into addresses of so many bits."""
        standard = cls()
        if bits >= standard.max_length:
            return standard
        share = min(standard.schema_bits, bits // 4)
        return cls(schema_bits=share, default_bits=min(standard.default_bits, bits - share), max_length=bits)

    @property
    def room(self) -> int:
        """The bits that a schema's own index may use."""
        return self.max_length - self.schema_bits

    def to_json(self) -> dict[str, int]:
        return asdict(self)
