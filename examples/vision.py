"""Replace the last layer of a ResNet with a SCROLL head, on scikit-learn's digits.

    python examples/vision.py              # a tiny ResNet, defined here
    python examples/vision.py resnet10t    # any network of timm, if timm is installed

The baseline is the same network with `nn.Linear` and cross-entropy.
"""

import sys

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy

import scroll


class Block(nn.Module):
    """Two convolutions with a shortcut connection."""

    def __init__(self, inputs, width):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, width, 3, padding=1), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width)
        self.shortcut = nn.Conv2d(inputs, width, 1)

    def forward(self, x):
        inner = self.bn1(self.conv1(x)).relu()
        return (self.shortcut(x) + self.bn2(self.conv2(inner))).relu()


class ResNet(nn.Sequential):
    """A small ResNet; its last layer is called `fc`, as in torchvision."""

    def __init__(self):
        super().__init__(Block(1, 16), nn.MaxPool2d(2), Block(16, 32), nn.MaxPool2d(2))
        self.flatten, self.fc = nn.Flatten(), nn.Linear(128, 10)


def body(name=None):
    """Return a network without its last layer, and the number of its features."""
    if name is not None:
        import timm

        net = timm.create_model(name, in_chans=1, num_classes=0)
        return net, net.num_features
    net = ResNet()
    features, net.fc = net.fc.in_features, nn.Identity()
    return net, features


def fit(network, loss, rows=1200, epochs=8):
    """Train with Adam on batches of 64; `loss` takes the indices of the rows."""
    optimiser = torch.optim.Adam(network.parameters(), lr=2e-3)
    for _ in range(epochs):
        for batch in torch.randperm(rows).split(64):
            optimiser.zero_grad()
            loss(batch).backward()
            optimiser.step()
    network.eval()


torch.manual_seed(0)
digits, order = load_digits(), torch.randperm(1797)
x = torch.tensor(digits.images, dtype=torch.float32)[order, None] / 8 - 1
y = torch.tensor(digits.target)[order]

net, features = body(*sys.argv[1:])
head = scroll.ClassificationHead(features, 10)  # was: nn.Linear(features, 10)
fit(nn.ModuleList([net, head]), lambda rows: head.loss(net(x[rows]), y[rows], total=1200))
plain = nn.Sequential(body(*sys.argv[1:])[0], nn.Linear(features, 10))
fit(plain, lambda rows: cross_entropy(plain(x[rows]), y[rows]))
with torch.no_grad():  # the remaining images are the test set
    found = {"scroll": head(net(x[1200:])).probs, "cross-entropy": plain(x[1200:]).softmax(-1)}
for name, p in found.items():
    nll = -p.gather(1, y[1200:, None]).log().mean()
    print(f"{name:13}  accuracy {(p.argmax(-1) == y[1200:]).float().mean():.3f}  NLL {nll:.4f}")
