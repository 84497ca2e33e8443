"""This library's version, and the lowest versions of others; pyproject.toml declares the same."""

import re

from .checks import require

__version__ = "0.1.0"
TORCH = "2.11"
SKLEARN = "1.6"
EXPORT = {"onnx": "1.18", "onnxscript": "0.7"}


def require_version(package: str, version: str, lowest: str, use: str) -> None:
    """Raise an ImportError of one line unless `version` of a package is at least `lowest`."""
    require(
        _numbers(version) >= _numbers(lowest),
        package,
        f"be version {lowest} or newer for {use}",
        f"version {version}",
        f"Update it with pip install -U '{package}>={lowest}'.",
        ImportError,
    )


def _numbers(version: str) -> tuple[int, ...]:
    """Return (major, minor), which compare as numbers: 2.10 is newer than 2.9."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])
