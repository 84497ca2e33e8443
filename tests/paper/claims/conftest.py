"""The report's tables, built once from the records of the repository."""

from pathlib import Path

import pytest

from scroll_paper.claims.claim import Evidence
from scroll_paper.registry import EXPERIMENTS
from scroll_paper.tables.experiment import Results


@pytest.fixture(scope="session")
def sections():
    results = Results(Path(__file__).parents[3] / "results")
    found = {name: experiment.report(results) for name, experiment in EXPERIMENTS.items()}
    return {name: section for name, section in found.items() if section is not None}


@pytest.fixture(scope="session")
def evidence(sections):
    return Evidence(table for section in sections.values() for table in section.tables)
