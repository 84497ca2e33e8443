"""Measure variants of a recipe one by one; print and append the results."""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

Measured = Callable[[str, str, Any, torch.device], dict[str, Any]]


def run(
    about: str, changes: Mapping[str, Mapping[str, Any]], sets: Sequence[str], measured: Measured
) -> None:
    """Measure the variants given on the command line; print one line of JSON per variant.

    Args:
        about: description of the program, for --help.
        changes: settings by body and name of the change.
        sets: data sets used by default.
        measured: takes a set, a body, a change and a device; returns a dict of results.
    """
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--sets", default=",".join(sets))
    parser.add_argument("--body", default=",".join(changes))
    parser.add_argument("--only", default="", help="names of changes, separated by semicolons")
    parser.add_argument("--into", type=Path)
    given = parser.parse_args()
    for body in given.body.split(","):
        for label, change in changes[body].items():
            if given.only and label not in given.only.split(";"):
                continue
            for name in given.sets.split(","):
                found = measured(name, body, change, torch.device(given.device))
                line = json.dumps({"body": body, "change": label, **found})
                print(line, flush=True)
                if given.into:
                    with given.into.open("a") as file:
                        file.write(line + "\n")
