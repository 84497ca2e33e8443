"""ResNet-18 without its last layer: images (N, 3, S, S) to features (N, 512)."""

from torch import Tensor, nn
from torch.nn.functional import relu


class Block(nn.Module):
    """Two convolutions and a skip connection."""

    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.first = _convolution(inputs, outputs, 3, stride)
        self.second = _convolution(outputs, outputs, 3, 1)
        same = stride == 1 and inputs == outputs
        self.skip = nn.Identity() if same else _convolution(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.second(relu(self.first(x)))
        return relu(out + self.skip(x))


class ResNet18(nn.Module):
    """ResNet-18 of He et al. without its last layer.

    Args:
        small: a stem for pictures of 32 pixels (3 x 3, no pooling); otherwise that of ImageNet.
    """

    features = 512

    def __init__(self, small: bool = True):
        super().__init__()
        self.stem = _convolution(3, 64, 3, 1) if small else _convolution(3, 64, 7, 2)
        self.pool = nn.Identity() if small else nn.MaxPool2d(3, 2, 1)
        widths = (64, 64, 128, 128, 256, 256, 512, 512)
        blocks, before = [], 64
        for i, width in enumerate(widths):
            blocks.append(Block(before, width, 2 if i % 2 == 0 and i else 1))
            before = width
        self.blocks = nn.Sequential(*blocks)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.blocks(self.pool(relu(self.stem(x))))
        return out.mean((-2, -1))


def _convolution(inputs: int, outputs: int, size: int, stride: int) -> nn.Module:
    layer = nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(outputs))
