"""Training stacks of networks: bodies, batches, optimiser, loop."""

from .batches import Rows
from .bodies import ARCHITECTURES, MLP, Dropout, Matern, Stacked, Tabular
from .loop import Trained, Watch, train
from .network import HeldOutScore, Network, held_out_mse, held_out_nll, stack
from .settings import Settings

__all__ = [
    "ARCHITECTURES",
    "MLP",
    "Dropout",
    "HeldOutScore",
    "Matern",
    "Network",
    "Rows",
    "Settings",
    "Stacked",
    "Tabular",
    "Trained",
    "Watch",
    "held_out_mse",
    "held_out_nll",
    "stack",
    "train",
]
