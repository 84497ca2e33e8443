"""The same numbers on an accelerator, where there is one."""

import copy

import pytest
import torch

from parts import CONJUGATE, FREE, HEADS, IN_BATCHES, SEARCHES_A_MODE, make_head
from scroll import RegressionHead, refit
from scroll.training.batches import Rows
from scroll.training.bodies import ARCHITECTURES, MLP
from scroll.training.loop import train
from scroll.training.network import Network, stack
from scroll.training.settings import Settings
from scroll_paper.data.images import Pictures, moments
from scroll_paper.deep.methods import NUMBERS
from scroll_paper.deep.training import Course, Step, TrainedNetwork
from scroll_paper.models.layers import BeliefLayer, TwoBeliefs

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
N, H = 40, 6
close = lambda a, b: torch.testing.assert_close(a.cpu(), b.cpu(), rtol=1e-8, atol=1e-9)


def moved(head):
    return copy.deepcopy(head).cuda()


@pytest.mark.parametrize("key", [*FREE, *CONJUGATE, *IN_BATCHES])
def test_methods(key):
    psi, y = torch.randn(N, H), torch.randn(N)
    here = make_head(key, H)
    there = moved(here)
    a, b = here.loss(psi, y, total=N), there.loss(psi.cuda(), y.cuda(), total=N)
    close(a, b)
    a.backward()
    b.backward()
    for p, q in zip(here.parameters(), there.parameters(), strict=True):
        if p.grad is not None:
            close(p.grad, q.grad)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_two_beliefs(architecture):
    x, y = torch.randn(N, 3), torch.randn(N)
    last = RegressionHead(H, covariance="full", bias=False)
    here = TwoBeliefs(BeliefLayer(MLP(3, H, 1, architecture)), last)
    there = moved(here)
    a, b = here.loss(x, y, N), there.loss(x.cuda(), y.cuda(), N)
    close(a, b)
    a.backward()
    b.backward()
    for p, q in zip(here.parameters(), there.parameters(), strict=True):
        if p.requires_grad:
            close(p.grad, q.grad)


@pytest.mark.parametrize("name", HEADS)
def test_heads_predict_refit_and_diagnose(name):
    make, labels = HEADS[name]
    psi, y = torch.randn(N, H), labels(N)
    here = make(H)
    there = moved(here)
    close(here.loss(psi, y, total=N), there.loss(psi.cuda(), y.cuda(), total=N))
    p, q = here(psi), there(psi.cuda())
    close(p.log_prob(y), q.log_prob(y.cuda()))
    assert str(here.diagnose(psi)) == str(there.diagnose(psi.cuda()))
    if name == "any":
        assert q.sample_latent(3).is_cuda
        return
    assert q.sample(3, torch.Generator("cuda").manual_seed(0)).is_cuda
    if hasattr(q, "quantile"):
        close(p.quantile([0.1, 0.9]).double(), q.quantile([0.1, 0.9]).double())
    bound, other = refit(here, psi, y), refit(there, psi.cuda(), y.cuda())
    close(bound.ood_score(psi), other.ood_score(psi.cuda()))
    assert other.sample_weights(2, torch.Generator("cuda"))(psi.cuda()).is_cuda
    assert refit(there, psi, y).ood_score(psi).is_cuda  # batches of an ordinary loader


def test_hybrid_refit():
    psi, y = torch.randn(N, H), torch.randn(N)
    here = HEADS["regression"][0](H)
    there = moved(here)
    a = refit(here, psi, y, hybrid=True, steps=20)
    b = refit(there, psi.cuda(), y.cuda(), hybrid=True, steps=20)
    close(a(psi).variance, b(psi.cuda()).variance)


@pytest.mark.parametrize("method", ["scroll", "closed", "block-hybrid", "prequential"])
def test_training(method):
    rows, held = (Rows(torch.randn(3, N, H), torch.randn(3, N)) for _ in range(2))

    def make(lead):
        return Network(
            MLP(H, 8, replicates=lead), RegressionHead(8, method=method, replicates=lead)
        )

    settings = Settings(steps=60, every=1, patience=5, batch=16 if make(()).head.batches else None)
    here = train(stack(make, range(3)), rows, held, settings)
    far = [Rows(r.x.cuda(), r.y.cuda()) for r in (rows, held)]
    there = train(stack(make, range(3)).cuda(), *far, settings)
    close(here.score, there.score)
    assert here.steps.tolist() == there.steps.tolist()


@pytest.mark.parametrize("name", [n for n in HEADS if n not in SEARCHES_A_MODE])
@pytest.mark.filterwarnings("ignore")
def test_compiles(name):
    make, labels = HEADS[name]
    psi, y = torch.randn(N, H).cuda(), labels(N).cuda()
    head = make(H).cuda()
    compiled = torch.compile(head.loss, fullgraph=True)
    close(compiled(psi, y, total=N), head.loss(psi, y, total=N))


@pytest.mark.parametrize("name", ["scroll-full", "scroll-diag", "mvn", "block-hybrid-diag"])
def test_a_deep_step_is_the_same_when_it_is_replayed(name):
    """Recorded after a few steps, with and without the gradient of the prior."""
    torch.set_default_dtype(torch.float32)
    draw = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (48, 3, 2, 2), dtype=torch.uint8, generator=draw)
    y = torch.randn(48, generator=draw)
    torch.manual_seed(0)
    here = NUMBERS[name].head(12, 1, 48)
    there = moved(here)
    course = Course(batch=8, frozen=True, compile=False, prior_every=3, head_lr=1e-2)
    for head, device in ((here, "cpu"), (there, "cuda")):
        rows = Pictures(x.to(device), y.to(device))
        step = Step(TrainedNetwork(torch.nn.Flatten(), head, moments(rows.x)), rows, course)
        for i in range(20):
            step(torch.arange(8, device=device) + 8 * (i % 6), i / 20)
        alone = name == "mvn" or "hybrid" in name  # there is no prior term
        assert len(step.graphs) == (0 if device == "cpu" else 1 if alone else 2)
    for p, q in zip(here.parameters(), there.parameters(), strict=True):
        torch.testing.assert_close(p, q.cpu(), rtol=1e-3, atol=1e-4)
