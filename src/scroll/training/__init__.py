"""Training stacks of networks: bodies, batches, optimiser, loop."""

from .batches import Rows
from .bodies import ARCHITECTURES, MLP, Matern, Stacked, Tabular
from .dropout import Dropout
from .loop import Watch, train
from .network import HeldOutScore, Network, held_out_mse, held_out_nll, stack
from .settings import Settings
from .state import Trained

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
