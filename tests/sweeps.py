"""Which cases of a sweep `make test` runs, and which only `make test-all`."""

import pytest

exhaustive = pytest.mark.exhaustive


def cases(values, *kept):
    """Return the values as parameters of a test; all but the `kept` ones are exhaustive."""
    assert all(value in values for value in kept)
    return [v if v in kept else pytest.param(v, marks=exhaustive) for v in values]
