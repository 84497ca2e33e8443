"""A LightningModule with a SCROLL head that predicts counts of bicycle hires.

    python examples/lightning_module.py

Besides the batch, a head needs only the number of training rows, which the datamodule provides.
The data are simulated: hour, temperature and weekend set the rate, and an unobserved factor
multiplies it. The baseline is a plain Poisson network, which cannot model that extra variance.
"""

import logging
import warnings

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

import scroll

logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
warnings.filterwarnings("ignore", ".*does not have many workers")
warnings.filterwarnings("ignore", ".*LeafSpec", FutureWarning)  # raised inside lightning


class Hires(lightning.LightningDataModule):
    """4000 hours; 3000 of them are for training."""

    def setup(self, stage):
        g = torch.Generator().manual_seed(0)
        hour, warmth, weekend = torch.rand(3, 4000, generator=g)
        log_rate = 2 + torch.sin(6.28 * hour) + 0.8 * warmth - (weekend > 0.7).float()
        surprise = 0.6 * torch.randn(4000, generator=g)
        y = torch.poisson((log_rate + surprise).exp(), generator=g)
        x = torch.stack([4 * hour - 2, 4 * warmth - 2, (weekend > 0.7).float()], -1)
        self.train, self.test = random_split(TensorDataset(x, y), [3000, 1000], g)

    def train_dataloader(self):
        return DataLoader(self.train, batch_size=200, shuffle=True)

    def test_dataloader(self):
        return DataLoader(self.test, batch_size=500)


class Forecast(lightning.LightningModule):
    """A body and a head; `forward` returns a predictive distribution."""

    def __init__(self, head):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 64), nn.SiLU(), nn.Linear(64, 32), nn.Tanh())
        self.head = head

    def forward(self, x):
        return self.head(self.body(x))

    def training_step(self, batch):
        x, y = batch
        return self.head.loss(self.body(x), y, total=len(self.trainer.datamodule.train))

    def test_step(self, batch):
        x, y = batch
        p = self(x)
        low, high = p.interval(0.9)
        self.log("nll", -p.log_prob(y).mean())
        self.log("coverage", ((low <= y) & (y <= high)).float().mean())

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=5e-3)


trainer = {"accelerator": "cpu", "max_epochs": 8, "logger": False, "enable_progress_bar": False}
trainer |= {"enable_checkpointing": False, "enable_model_summary": False}
heads = {"scroll": {"likelihood": "negbinomial"}, "Poisson network": {"covariance": "none"}}
for name, how in heads.items():
    torch.manual_seed(0)
    model, data, run = Forecast(scroll.CountHead(32, **how)), Hires(), lightning.Trainer(**trainer)
    run.fit(model, data)
    (found,) = run.test(model, data, verbose=False)
    print(f"{name:15}  NLL {found['nll']:.3f}  90 % intervals cover {found['coverage']:.2f}")
