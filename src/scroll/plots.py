"""Pictures, for those who would rather look. Needs the extra `scroll-torch[plots]`."""

from typing import TYPE_CHECKING, Any

from torch import Tensor

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def pyplot() -> Any:
    """matplotlib.pyplot, imported only where a picture is asked for."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as missing:
        raise ImportError(
            "`matplotlib` must be installed to plot, but got none. "
            "Install it with pip install 'scroll-torch[plots]'."
        ) from missing
    return plt


def predictive_band(
    x: Tensor, predictive: Any, *, width: float = 2.0, color: str = "C0", ax: "Axes | None" = None
) -> "Axes":
    """The predictive mean over x, and a band of +-`width` standard deviations."""
    ax = ax if ax is not None else pyplot().gca()
    mean, std = (t.detach().cpu().numpy() for t in (predictive.mean, predictive.stddev))
    line = x.detach().cpu().numpy()
    label = f"mean ± {width:g} sd"
    ax.fill_between(line, mean - width * std, mean + width * std, color=color, alpha=0.2, lw=0)
    ax.plot(line, mean, color=color, lw=2, label=label)
    return ax
