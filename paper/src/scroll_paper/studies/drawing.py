"""One style for the pictures of the studies: colours, line styles and how they are written.

Colours are those of Okabe and Ito, told apart with any kind of colour blindness. Blue is dark and
orange light, so that both also differ in grey; every curve has its own dashes or marker as well.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scroll.integrations.plots import pyplot, save

FREE, BOUND, THIRD, TRUTH, GREY = "#0072B2", "#E69F00", "#009E73", "black", "0.6"
STYLE = {
    "font.size": 12,
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.fontsize": 11,
    "legend.frameon": False,
    "lines.linewidth": 2,
    "lines.markersize": 6,
    "svg.hashsalt": "scroll",  # the same picture is the same file
}

Array = NDArray[Any]


@contextmanager
def picture(
    path: Path, rows: int, columns: int, size: tuple[float, float], **options: object
) -> Iterator[Array]:
    """Yield the axes of a figure, (rows, columns); then write it to `path` as PNG and as SVG.

    Args:
        path: of the files, without a suffix.
        rows: of axes.
        columns: of axes.
        size: width and height in inches.
        options: of `matplotlib.pyplot.subplots`.
    """
    plt = pyplot()
    with plt.rc_context(STYLE):
        made = {"figsize": size, "layout": "constrained", "squeeze": False, **options}
        figure, axes = plt.subplots(rows, columns, **made)
        yield np.asarray(axes)
        for suffix in (".png", ".svg"):
            save(figure, path.with_name(path.name + suffix))
        plt.close(figure)


def blank(ax: Any) -> None:
    """Remove ticks and frame, for a diagram."""
    ax.set(xticks=[], yticks=[])
    for side in ax.spines.values():
        side.set_visible(False)
