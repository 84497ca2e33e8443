"""The records of a set of pictures, found by method, metric and condition."""

from collections.abc import Iterable, Sequence

from ..tables.records import Record, key
from ..tables.selection import Values
from .units import Conditions, units


class Found:
    """The records of a set of pictures, by method, metric and condition.

    Args:
        name: of the set.
        records: of the set.
        seeds: to show.
        conditions: how the networks were trained.
        unscaled: whether their targets were left in their unit.
    """

    def __init__(
        self,
        name: str,
        records: Iterable[Record],
        seeds: Sequence[int],
        conditions: Conditions,
        unscaled: bool = False,
    ):
        self.name, self.seeds = name, seeds
        self.conditions, self.unscaled = conditions, unscaled
        self.by_key = {key(record): record for record in records}

    def values(self, method: str, metric: str, condition: str = "scratch") -> Values:
        """Return a metric by seed; of several ways to train, the one with the best validation."""
        best = {seed: self._best(method, seed, condition) for seed in self.seeds}
        return {
            seed: record["metrics"][metric]
            for seed, record in best.items()
            if record is not None and metric in record["metrics"]
        }

    def chosen(self, method: str, condition: str = "scratch") -> list[Record]:
        """Return the records behind `values`, one per seed."""
        best = (self._best(method, seed, condition) for seed in self.seeds)
        return [record for record in best if record is not None]

    def _best(self, method: str, seed: int, condition: str) -> Record | None:
        courses = {condition: self.conditions[condition]}
        several = units(self.name, [method], [seed], courses, self.unscaled)
        ways = [self.by_key[k] for unit in several if (k := key(unit.fit())) in self.by_key]
        return min(ways, key=lambda record: record["val"]) if len(ways) > 1 else (*ways, None)[0]
