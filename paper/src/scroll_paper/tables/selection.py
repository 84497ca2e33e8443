"""Records by what they are about, and the choice that validation makes among them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..models.method import Setting

Values = dict[int, float]
Where = Mapping[str, Any]
_ODD = frozenset(Setting._fields) - {"set", "method"}
_RECORD, _FIT = {"metrics", "val"}, {"set", "method", "architecture", "seed"}


class Selection:
    """Records, found by data set, method and setting."""

    def __init__(self, records: Iterable[Mapping[str, Any]]):
        self._found: dict[Any, list[Mapping[str, Any]]] = defaultdict(list)
        for record in records:
            fit = record["fit"]
            if not (fit.keys() >= _FIT and record.keys() >= _RECORD):
                continue  # of something else
            odd = frozenset((k, v) for k, v in fit.items() if k in _ODD)
            self._found[fit["set"], fit["method"], odd].append(record)

    def fits(self, name: str, method: str, where: Where, seeds: Iterable[int]) -> list[Any]:
        """The records of one method on one set, in one setting; of an ensemble's members, one.

        Args:
            name: of the data set.
            method: as recorded.
            where: what is unlike the headline's; also `architecture` and `knob`, to fix them.
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
        """The metric of each seed where its validation objective is least: in one of the settings
        `ways`, at one architecture and knob.

        Orders of the rows are averaged before the choice.
        """
        groups: dict[int, dict[Any, list[Any]]] = defaultdict(lambda: defaultdict(list))
        for way, where in enumerate(ways):
            for r in self.fits(name, method, where, seeds):
                if metric in r["metrics"]:
                    fit = r["fit"]
                    groups[fit["seed"]][way, fit["architecture"], fit.get("knob")].append(r)
        return {
            seed: _mean(r["metrics"][metric] for r in min(choices.values(), key=_objective))
            for seed, choices in sorted(groups.items())
        }


def _objective(records: list[Any]) -> float:
    value = _mean(r["val"] for r in records)
    return value if value == value else float("inf")  # a fit that broke is never chosen


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed)
