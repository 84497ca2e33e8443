"""`python -m scroll_paper` runs `scroll bench` from a source tree without installing it."""

import typer

from .app import bench

typer.run(bench)
