"""Progress of long work: bars on a terminal, lines elsewhere."""

import io
import re
import time

import numpy as np
import torch
from rich.console import Console

from scroll import ScrollRegressor
from scroll.training import progress


def terminal(**how):
    return Console(file=io.StringIO(), width=100, **how)


def plain(console):
    """What a console has shown, without control sequences."""
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", console.file.getvalue())


def test_progress_shows_fits_done_and_the_best():
    console = terminal(force_terminal=True)
    with progress.progress(console, 40) as tell:
        tell(0, float("inf"))
        tell(13, 1.23456)
    shown = console.file.getvalue()
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown)
    assert re.search(r"fits .*13/40 best 1\.235", plain)
    assert "inf" not in plain
    console = terminal(force_terminal=True)
    with progress.progress(console, 40) as tell:
        tell(0, float("inf"))
    assert "0/40  " in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", console.file.getvalue())


def test_progress_elsewhere_is_a_line_every_half_minute(monkeypatch):
    monkeypatch.setattr(progress, "EVERY", 0.05)
    console, lines = terminal(force_terminal=False), []

    def shown(count):
        until = time.monotonic() + 10
        while len(lines) < count and time.monotonic() < until:
            lines[:] = console.file.getvalue().splitlines()
        return lines

    with progress.progress(console, 40) as tell:
        assert shown(1)[0] == "0 of 40 fits after 0:00"
        tell(3, 1.23456)
        assert "left" not in shown(len(lines) + 2)[-1]  # one stack says little of the others
        tell(10, 1.23456)
        assert re.fullmatch(
            r"10 of 40 fits after 0:0\d, about 0:0\d left", shown(len(lines) + 2)[-1]
        )
    over = len(console.file.getvalue())
    time.sleep(0.2)
    assert len(console.file.getvalue()) == over


def test_progress_of_a_short_run_is_silent_elsewhere():
    console = terminal(force_terminal=False)
    with progress.progress(console, 40) as tell:
        tell(13, 1.23456)
    assert console.file.getvalue() == ""


def test_times_are_written_as_on_a_clock():
    assert [progress.clock(s) for s in (0, 59.6, 245, 3750)] == ["0:00", "1:00", "4:05", "1:02:30"]


def test_each_of_several_bars_has_its_own_best_score():
    console = terminal(force_terminal=True)
    with progress.bars(console, transient=False) as add:
        first, second = add("smooth", 10), add("waves", 20)
        first(10, 2.0)
        second(5, 1.0)
        second(20, 3.0)  # the best so far stays
    last = plain(console).splitlines()[-2:]
    assert re.search(r"smooth .*10/10 best 2\.000", last[0])
    assert re.search(r"waves .*20/20 best 1\.000", last[1])


def test_an_estimator_shows_one_bar_per_stack_of_networks(capsys):
    torch.set_default_dtype(torch.float32)
    x = np.random.default_rng(0).normal(size=(60, 2))
    how = {"body": (8,), "n_members": 2, "max_steps": 20, "routing": "free", "random_state": 0}
    quiet = ScrollRegressor(**how).fit(x, x[:, 0])
    assert capsys.readouterr().out == ""
    shown = ScrollRegressor(verbose=1, **how).fit(x, x[:, 0])
    assert re.search(r"8, 2 networks .*1/1 best -?\d+\.\d{3}", capsys.readouterr().out)
    np.testing.assert_array_equal(shown.predict(x), quiet.predict(x))
