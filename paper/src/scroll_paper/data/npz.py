"""Arrays of a .npz file, with an error message if it is damaged."""

from pathlib import Path
from typing import Any, TypeAlias
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from scroll._core.checks import invalid

Array: TypeAlias = NDArray[Any]  # of any type


def arrays(path: Path, names: tuple[str, ...], want: str, remedy: str) -> list[Array]:
    """Return the arrays of these names.

    Args:
        path: of the file.
        names: of the arrays.
        want: what the file must do, for the error message.
        remedy: what to do if it does not.
    """
    try:
        with path.open("rb") as whole, np.load(whole, allow_pickle=False) as file:
            return [file[name] for name in names]
    except (OSError, ValueError, LookupError, EOFError, BadZipFile) as error:
        got = f"{type(error).__name__}: {error}".rstrip(".")
        raise invalid(str(path), want, got, remedy) from None
