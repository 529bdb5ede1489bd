"""What a benchmark hands back: samples, aims and whether they were met. Knows no server."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

RATIO = "times"
"""Unit of a quotient."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Repeated measurements of one quantity."""

    label: str
    """What was measured, on which server."""
    values: tuple[float, ...]
    unit: str = "ms"

    @property
    def median(self) -> float:
        """The middle value."""
        return median(self.values)

    def percentile(self, share: float) -> float:
        """Return the value below which this share of the samples lies (nearest rank)."""
        ordered = sorted(self.values)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


@dataclass(frozen=True, slots=True)
class Judgement:
    """A quantity that has an aim."""

    name: str
    value: float
    limit: float
    at_least: bool = False
    """True when more is better."""
    unit: str = RATIO

    @property
    def met(self) -> bool:
        """True when the aim is met."""
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    @property
    def aim(self) -> str:
        """The aim in words."""
        return f"at {'least' if self.at_least else 'most'} {self.limit:g} {self.unit}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything one benchmark measured."""

    judgements: tuple[Judgement, ...] = ()
    samples: tuple[Samples, ...] = ()
    facts: tuple[str, ...] = ()
    """Sentences about the circumstances."""


@dataclass(frozen=True, slots=True)
class Section:
    """One benchmark of a report."""

    number: int
    title: str
    outcome: Outcome = field(default_factory=Outcome)
    load_average: tuple[float, float] = (0.0, 0.0)
    """Of one minute, before and after."""
    error: str | None = None
    """Why there is no outcome."""


def milliseconds(label: str, seconds: Sequence[float]) -> Samples:
    """Return durations as samples in milliseconds."""
    return Samples(label, tuple(value * 1000 for value in seconds))
