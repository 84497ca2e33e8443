"""Arrays of a .npz file: whole, or refused by name."""

from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from scroll._core.checks import refusal


def arrays(path: Path, names: tuple[str, ...], want: str, remedy: str) -> list[NDArray[Any]]:
    """Those of these names; `path` must `want`, and `remedy` says what to do if it does not."""
    try:
        with path.open("rb") as whole, np.load(whole, allow_pickle=False) as file:
            return [file[name] for name in names]
    except (OSError, ValueError, LookupError, EOFError, BadZipFile) as error:
        got = f"{type(error).__name__}: {error}".rstrip(".")
        raise refusal(str(path), want, got, remedy) from None
