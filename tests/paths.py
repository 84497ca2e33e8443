"""Where other processes find the test modules."""

import os
from pathlib import Path

TESTS = Path(__file__).parent


def python_path(*folders):
    """Return a PYTHONPATH with folders, the modules of tests/ and what this process was given."""
    given = os.environ.get("PYTHONPATH")
    return os.pathsep.join(filter(None, [*map(str, folders), str(TESTS), given]))
