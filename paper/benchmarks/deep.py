"""Cost of a head in a deep network, relative to cross-entropy, in one run on one GPU.

    python paper/benchmarks/deep.py [--heads ova-none,ova-full] [--steps 300] [--batch 128]

Training: one step of a ResNet-18 on images of CIFAR's size as in `scroll bench cifar`, with
augmentation, both passes and both optimisers. Inference: mean and variance of ages from a
network of the trained size, relative to its plain linear layer.
"""

import argparse
import time

import torch
from torch import nn

from scroll import RegressionHead
from scroll._core.checks import unchecked
from scroll_paper.data.images import Pictures, moments, scaled
from scroll_paper.deep.methods import LABELS
from scroll_paper.deep.training import Course, Step, TrainedNetwork
from scroll_paper.models.resnet import ResNet18

ROWS, CLASSES, ROUNDS = 45_000, 10, 5


def timed(step, count: int) -> float:
    """Return the milliseconds per call."""
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(count):
        step()
    torch.cuda.synchronize()
    return 1000 * (time.perf_counter() - began) / count


def training(names: list[str], steps: int, batch: int, rows: Pictures) -> None:
    """Time steps of all heads in turn, so that a drifting clock affects all of them."""
    made = {}
    for name in names:
        torch.manual_seed(0)
        body, head = ResNet18().cuda(), LABELS[name].head(ResNet18.features, CLASSES, ROWS).cuda()
        body.to(memory_format=torch.channels_last)
        made[name] = Step(TrainedNetwork(body, head, moments(rows.x)), rows, Course(batch=batch))
    index = torch.randint(ROWS, (batch,), device="cuda")
    spent = {name: [] for name in made}
    for step in made.values():
        timed(lambda step=step: step(index, 0.0), 40)  # compile, capture
    for _ in range(ROUNDS):
        for name, step in made.items():
            spent[name].append(timed(lambda step=step: step(index, 0.0), steps))
    base = min(spent["softmax"])
    for name, each in spent.items():
        print(f"{name:14} {min(each):.3f} ms per step, {min(each) / base:.3f}x", flush=True)


@torch.no_grad()
def inference(steps: int, batch: int, rows: Pictures) -> None:
    """Time mean and variance of a batch, relative to a plain network's output."""
    body = ResNet18().cuda().eval().to(memory_format=torch.channels_last)
    scale = moments(rows.x)
    x = scaled(rows.x[:batch], scale).contiguous(memory_format=torch.channels_last)
    plain = nn.Linear(ResNet18.features, 1).cuda()

    def network(last):
        def run(x):
            with torch.autocast("cuda", torch.bfloat16):
                psi = body(x)
            return last(psi.float())

        return torch.compile(run, mode="reduce-overhead")

    runs = {"plain": network(plain)}
    for covariance in ("none", "diag", "full"):
        head = RegressionHead(ResNet18.features, covariance=covariance).cuda()

        def both(psi, head=head):
            p = head(psi)
            return p.mean, p.variance

        runs[covariance] = network(both)
    spent = {name: [] for name in runs}
    with unchecked():
        for run in runs.values():
            timed(lambda run=run: run(x), 20)
        for _ in range(ROUNDS):
            for name, run in runs.items():
                spent[name].append(timed(lambda run=run: run(x), steps))
    base = min(spent["plain"])
    for name, each in spent.items():
        print(f"{name:14} {min(each):.3f} ms per batch, {min(each) / base:.3f}x", flush=True)


def main() -> None:
    """Measure training and inference."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--heads", default="softmax,ova-none,ova-diag,ova-full")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=128)
    given = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("There is no GPU here, and these ratios are about one.")
    torch.set_float32_matmul_precision("high")
    names = list(dict.fromkeys(["softmax", *given.heads.split(",")]))
    g = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (ROWS, 3, 32, 32), generator=g, dtype=torch.uint8)
    y = torch.randint(0, CLASSES, (ROWS,), generator=g)
    rows = Pictures(x.cuda(), y.cuda())
    training(names, given.steps, given.batch, rows)
    inference(given.steps, given.batch, rows)


if __name__ == "__main__":
    main()
