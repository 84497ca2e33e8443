"""Find records by data set, method and setting, and choose among them by validation."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..models.method import Setting
from .records import Record

Values = dict[int, float]
Where = Mapping[str, Any]
_ODD = frozenset(Setting._fields) - {"set", "method"}
_RECORD, _FIT = {"metrics", "val"}, {"set", "method", "architecture", "seed"}


class Selection:
    """Records, found by data set, method and setting."""

    def __init__(self, records: Iterable[Record]):
        self._found: dict[object, list[Record]] = defaultdict(list)
        for record in records:
            fit = record["fit"]
            if not (fit.keys() >= _FIT and record.keys() >= _RECORD):
                continue  # a record of another kind
            odd = frozenset((k, v) for k, v in fit.items() if k in _ODD)
            self._found[fit["set"], fit["method"], odd].append(record)

    def fits(self, name: str, method: str, where: Where, seeds: Iterable[int]) -> list[Record]:
        """Return the records of one method on one data set in one setting.

        Of the members of an ensemble, only the first is returned.

        Args:
            name: of the data set.
            method: as recorded.
            where: settings that differ from the headline's; `architecture` and `knob` fix those.
            seeds: of the splits.
        """
        odd = frozenset((k, v) for k, v in where.items() if k in _ODD)
        fixed = {k: v for k, v in where.items() if k not in _ODD}
        wanted = set(seeds)
        return [
            r
            for r in self._found.get((name, method, odd), ())
            if r["fit"]["seed"] in wanted
            and not r["fit"].get("member")
            and all(r["fit"].get(k) == v for k, v in fixed.items())
        ]

    def values(
        self,
        name: str,
        method: str,
        ways: Sequence[Where],
        seeds: Iterable[int],
        metric: str = "nll",
    ) -> Values:
        """Return a metric by seed, of the fit with the least validation objective.

        The choice is among the settings `ways`, the architectures and the hyper-parameters.
        Random orders of the rows are averaged before it.

        Args:
            name: of the data set.
            method: as recorded.
            ways: settings to choose from; see `fits`.
            seeds: of the splits.
            metric: its name in the records.
        """
        groups: dict[int, dict[object, list[Record]]] = defaultdict(lambda: defaultdict(list))
        for way, where in enumerate(ways):
            for r in self.fits(name, method, where, seeds):
                if metric in r["metrics"]:
                    fit = r["fit"]
                    groups[fit["seed"]][way, fit["architecture"], fit.get("knob")].append(r)
        return {
            seed: _mean(r["metrics"][metric] for r in min(choices.values(), key=_objective))
            for seed, choices in sorted(groups.items())
        }


def _objective(records: list[Record]) -> float:
    value = _mean(r["val"] for r in records)
    return value if value == value else float("inf")  # a fit that diverged is never chosen


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed)
