"""Deep networks trained through a head: images, training steps, checkpoints, cost of the prior."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar
from torch import nn

from scroll import PriorGradient
from scroll_paper.data import images
from scroll_paper.data.embeddings import digest
from scroll_paper.data.images import Pictures, augmented, moments, scaled
from scroll_paper.data.sources import SOURCES
from scroll_paper.deep import training, vision
from scroll_paper.deep import units as units_module
from scroll_paper.deep.methods import LABELS, NUMBERS
from scroll_paper.deep.training import Course, Step, TrainedNetwork, train_network
from scroll_paper.deep.units import CONDITIONS, DeepUnit, Parts, units
from scroll_paper.models.baselines import MeanVariance
from scroll_paper.models.resnet import ResNet18
from scroll_paper.models.softmax import laplace
from scroll_paper.tables import records


@pytest.fixture(autouse=True)
def _single_precision(_float64_and_seed):
    torch.set_default_dtype(torch.float32)


SCRATCH = {"scratch": CONDITIONS["scratch"]}
QUICK = Course(epochs=2, batch=8, lr=0.01, compile=False)


class Small(nn.Module):
    features = 6

    def __init__(self):
        super().__init__()
        self.layer = nn.Conv2d(3, 6, 3)

    def forward(self, x):
        return self.layer(x).relu().mean((-2, -1))


def pictures(n=48, size=8, classes=10, seed=0):
    g = torch.Generator().manual_seed(seed)
    x = torch.randint(0, 256, (n, 3, size, size), generator=g, dtype=torch.uint8)
    labels = torch.randint(0, max(classes, 1), (n,), generator=g)
    y = labels if classes else torch.randn(n, generator=g)
    return Pictures(x, y)


@pytest.mark.parametrize("small", [True, False])
def test_the_network_is_the_one_of_the_paper(small):
    """As many weights as torchvision's ResNet-18 without its last layer, and 512 features."""
    body = ResNet18(small)
    stem = 3 * 64 * 49 - 3 * 64 * 9
    assert sum(p.numel() for p in body.parameters()) == 11_176_512 - small * stem
    size = 32 if small else 64
    seen = []
    body.blocks.register_forward_hook(lambda module, given, out: seen.append(out.shape))
    assert body.eval()(torch.zeros(2, 3, size, size)).shape == (2, 512)
    assert seen == [(2, 512, size // (8 if small else 32), size // (8 if small else 32))]


def test_a_cut_is_a_piece_of_the_picture_with_its_rim():
    torch.manual_seed(0)
    x = pictures(200, 6).x
    found = augmented(x, 2)
    assert found.dtype == torch.uint8
    whole = torch.nn.functional.pad(x, (2, 2, 2, 2))
    places = set()
    for i in range(200):
        for flip in (False, True):
            for down in range(5):
                for right in range(5):
                    piece = whole[i, :, down : down + 6, right : right + 6]
                    if torch.equal(found[i], piece.flip(-1) if flip else piece):
                        places.add((flip, down, right))
                        break
    assert len(places) > 40  # of 50, all about equally likely
    assert torch.equal(augmented(x[:, :, :, :1].expand(-1, -1, 6, 1), 0)[..., 0], x[:, :, :, 0])


def test_scaled_pictures_have_unit_channels():
    x = pictures(50).x
    found = scaled(x, moments(x))
    assert found.mean((0, 2, 3)).tolist() == pytest.approx([0] * 3, abs=1e-5)
    assert found.std((0, 2, 3)).tolist() == pytest.approx([1] * 3, rel=1e-4)


def test_data_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"`cifar10.npz` must lie in .*SCROLL_DATA"):
        images.cifar([tmp_path])


@pytest.mark.parametrize("what", ["cut", "empty", "page", "test only", "few"])
def test_a_file_of_pictures_that_is_not_whole(what, tmp_path, monkeypatch):
    rng, path = np.random.default_rng(0), tmp_path / "cifar10.npz"
    x = {p: rng.integers(0, 256, (n, 32, 32, 3), np.uint8) for p, n in (("train", 9), ("test", 4))}
    y = {p: np.arange(len(x[p])) % 10 for p in x}
    kept = ("test",) if what == "test only" else ("train", "test")
    np.savez(path, **{f"x_{p}": x[p] for p in kept}, **{f"y_{p}": y[p] for p in kept})
    whole = path.read_bytes()
    damaged = {"cut": whole[: len(whole) // 2], "empty": b"", "page": b"<html></html>"}
    path.write_bytes(damaged.get(what, whole))
    known = SOURCES["cifar10"]._replace(rows=4, content=digest(list(x["test"]), y["test"]))
    monkeypatch.setitem(SOURCES, "cifar10", known)
    with pytest.raises(ValueError, match=r"cifar10.npz` must (be complete|hold x_train)"):
        images.cifar([tmp_path])


@pytest.mark.parametrize("name", LABELS | NUMBERS)
def test_every_head_trains_and_is_kept_where_it_was_best(name):
    torch.manual_seed(0)
    labels = name in LABELS
    rows, held = (pictures(seed=s, classes=10 * labels) for s in (0, 1))
    body, head = Small(), (LABELS | NUMBERS)[name].head(6, 10, 48)
    scores = []
    found = train_network(body, head, rows, held, QUICK, lambda epoch, score: scores.append(score))
    assert len(scores) == 2
    assert found.score == min(scores)
    assert training.validation_score(head, found.features(held.x), held.y) == pytest.approx(
        found.score, rel=1e-6
    )


def test_a_step_is_what_a_plain_loop_does():
    """A mean over rows and outputs, Nesterov for the body, Adam for the head, a cosine rate."""
    rows = pictures()
    course = Course(epochs=1, batch=48, lr=0.1, compile=False, prior_every=1)
    torch.manual_seed(3)
    body, head = Small(), LABELS["ova-diag"].head(6, 10, 48)
    other, twin = Small(), LABELS["ova-diag"].head(6, 10, 48)
    other.load_state_dict(body.state_dict())
    twin.load_state_dict(head.state_dict())
    step = Step(TrainedNetwork(body, head, moments(rows.x)), rows, course)
    plain = torch.optim.SGD(other.parameters(), 0.1, 0.9, weight_decay=5e-4, nesterov=True)
    adam = torch.optim.Adam(twin.parameters(), 1e-3)
    for i in range(3):
        torch.manual_seed(i)
        step(torch.arange(48), i / 3)
        torch.manual_seed(i)
        x = scaled(augmented(rows.x), moments(rows.x))
        with torch.autocast("cpu", torch.bfloat16):
            psi = other(x).float()
        score = twin.loss(psi, rows.y, total=48, prior=False)
        prior = twin.loss(psi, rows.y, total=48) - score
        plain.param_groups[0]["lr"] = 0.1 * (1 + np.cos(np.pi * i / 3)) / 2
        plain.zero_grad()
        adam.zero_grad()
        (score / 10 + prior).backward()
        plain.step()
        adam.step()
    for p, q in zip(body.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-6)
    for p, q in zip(head.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("anneal", [False, True])
def test_the_rate_of_a_head_falls_where_it_is_told_to(anneal):
    rows = pictures()
    body, head = Small(), LABELS["ova-full"].head(6, 10, 48)
    course = Course(batch=8, compile=False, anneal_head=anneal)
    step = Step(TrainedNetwork(body, head, moments(rows.x)), rows, course)
    before = [[p.clone() for p in part.parameters()] for part in (body, head)]
    step(torch.arange(8), 1.0)  # the last of all
    still = [
        all(torch.equal(p, q) for p, q in zip(part.parameters(), old, strict=True))
        for part, old in zip((body, head), before, strict=True)
    ]
    assert still == [True, anneal]


@pytest.mark.parametrize("name", ["ova-full", "gaussreg-none"])
def test_precisions_learn_at_a_rate_of_their_own(name):
    """The first step of Adam is as long as its rate."""
    rows, head = pictures(), LABELS[name].head(6, 10, 48)
    course = Course(batch=8, compile=False, anneal_head=True, alpha_rate=0.25)
    before = {k: p.detach().clone() for k, p in head.named_parameters()}
    Step(TrainedNetwork(Small(), head, moments(rows.x)), rows, course)(torch.arange(8), 0.5)
    went = {k: (p - before[k]).abs().max().item() for k, p in head.named_parameters()}
    assert went.pop("log_alpha") == pytest.approx(0.25 * 0.5e-3, rel=1e-2)
    assert all(way == pytest.approx(0.5e-3, rel=1e-2) for way in went.values())


def test_a_frozen_body_stays_as_it_is():
    rows = pictures()
    body, head = Small(), LABELS["ova-full"].head(6, 10, 48)
    before = [p.clone() for p in body.parameters()]
    now = TrainedNetwork(body, head, moments(rows.x))
    start = training.validation_score(head, now.features(rows.x), rows.y)
    course = Course(epochs=20, batch=8, head_lr=0.03, frozen=True, compile=False)
    found = train_network(body, head, rows, rows, course)
    assert all(torch.equal(p, q) for p, q in zip(body.parameters(), before, strict=True))
    assert found.score < start - 0.01


def test_the_prior_is_found_every_so_often_and_added_at_every_step(monkeypatch):
    rows, calls = pictures(), []
    real = (PriorGradient.find, PriorGradient.add)
    monkeypatch.setattr(PriorGradient, "find", lambda p: (calls.append("find"), real[0](p)))
    monkeypatch.setattr(PriorGradient, "add", lambda p: (calls.append("add"), real[1](p)))
    rows = rows._replace(y=rows.y.float())
    step = Step(
        TrainedNetwork(Small(), NUMBERS["scroll-full"].head(6, 1, 48), moments(rows.x)),
        rows,
        Course(batch=8, compile=False, prior_every=4),
    )
    for i in range(8):
        step(torch.arange(8), i / 8)
    assert calls == ["find", *["add"] * 4] * 2


def test_weights_of_mean_one_change_the_step_and_not_the_score():
    """MVN in a deep body: its weights are V^beta over their mean, and a wild row stays finite."""
    torch.manual_seed(0)
    plain, unit = MeanVariance(6), MeanVariance(6, unit=True)
    unit.load_state_dict(plain.state_dict())
    psi, y = torch.randn(9, 6), torch.randn(9)
    weight = plain(psi).variance.sqrt().mean()
    torch.testing.assert_close(unit.loss(psi, y, 9) * weight, plain.loss(psi, y, 9))
    wild = unit.loss(psi * 1e6, y, 9)
    wild.backward()
    assert wild.isfinite()
    assert all(p.grad.isfinite().all() for p in unit.parameters())


def test_the_temperature_is_the_best_one():
    g = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(3000, 4, generator=g, dtype=torch.float64)
    y = torch.multinomial((logits / 2.2).softmax(-1), 1, generator=g)[:, 0]

    def nll(t):
        return float(torch.nn.functional.cross_entropy(logits / t, y))

    best = minimize_scalar(nll, bounds=(0.5, 5), method="bounded", options={"xatol": 1e-6}).x
    assert vision.temperature(logits.log_softmax(-1), y) == pytest.approx(best, rel=2e-3)


def parts(labels, seed=0):
    each = [pictures(seed=s, classes=10 * labels) for s in range(3)]
    return Parts(*each) if labels else Parts(*each, shift=30.0, scale=10.0)


def test_a_softmax_brings_its_posterior_along():
    unit = DeepUnit("cifar10", "softmax", 0, course=QUICK)
    found, lines, kept = vision.trained(unit, parts(True), Small)
    names = ["softmax", "softmax-laplace", "softmax-laplace-tuned"]
    assert [line["fit"]["method"] for line in lines] == names
    assert lines[2]["metrics"]["precision"] in vision.PRECISIONS
    data = parts(True)
    y = data.test.y
    log_p = found.head(found.features(data.test.x)).log_probs.detach()
    nll = float(torch.nn.functional.nll_loss(log_p, y))
    assert lines[0]["metrics"]["nll"] == pytest.approx(nll, rel=1e-5)
    assert lines[0]["metrics"]["nll_oracle"] <= lines[0]["metrics"]["nll"] + 1e-6
    assert kept["softmax"].shape == (48, 10)
    # its curvature is the diagonal of autograd's Hessian
    psi = found.features(data.train.x).double()
    weight = found.head.linear.detach().double()

    def loss(w):
        return torch.nn.functional.cross_entropy(
            psi @ w.reshape(10, 6).mT, data.train.y, reduction="sum"
        )

    hessian = torch.autograd.functional.hessian(loss, weight.reshape(-1)).diagonal()
    curve = 1 / laplace(found.head, found.features(data.train.x), 1.0).double() - 1
    torch.testing.assert_close(curve.reshape(-1), hessian, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["scroll-full", "map", "mvn"])
def test_ages_are_measured_in_years(name):
    data = parts(False)
    found, (line,), _ = vision.trained(DeepUnit("faces", name, 0, course=QUICK), data, Small)
    with torch.no_grad():
        p = found.head(found.features(data.test.x))
    error = 10 * (p.mean.reshape(-1) - data.test.y)
    assert line["metrics"]["rmse"] == pytest.approx(float(error.square().mean().sqrt()), rel=1e-4)
    if name == "map":  # its noise is that of the held-out residuals
        held = found.head(found.features(data.held.x)).mean.reshape(-1) - data.held.y
        noise = found.head.likelihood.log_noise.exp()
        torch.testing.assert_close(noise[0], held.square().mean().sqrt(), rtol=1e-4, atol=0)


def test_a_network_that_has_become_nan_trains_no_further(monkeypatch):
    """And is kept as it was when it still had a score."""
    scores, said = iter([3.0, 2.0, float("nan"), 1.0]), []
    monkeypatch.setattr(training, "validation_score", lambda head, psi, y: next(scores))
    rows, held = (pictures(seed=s, classes=0) for s in (0, 1))
    head = NUMBERS["scroll-diag"].head(6, 1, 48)
    found = train_network(
        Small(), head, rows, held, replace(QUICK, epochs=4), lambda *how: said.append(how)
    )
    assert [epoch for epoch, _ in said] == [0, 1, 2]
    assert (found.epoch, found.score) == (1, 2.0)


def test_a_record_says_in_what_its_course_is_not_the_papers():
    odd = replace(Course(), anneal_head=True, head_lr=0.01, frozen=True, compile=False)
    assert DeepUnit("faces", "map", 0, "frozen", odd).fit() == {
        "set": "faces", "method": "map", "seed": 0,
        "condition": "frozen", "anneal_head": True, "head_lr": 0.01,
    }  # fmt: skip
    assert DeepUnit("faces", "map", 0, "tuned", Course()).fit() == {
        "set": "faces", "method": "map", "seed": 0, "condition": "tuned",
    }  # fmt: skip


def test_only_heads_with_a_learned_prior_have_a_rate_for_it():
    heads = units("cifar10", ["ova-none", "softmax"], [0], SCRATCH)
    assert [u.fit().get("alpha_rate") for u in heads] == [0.25, None]
    (face,) = units("faces", ["scroll-full"], [0], SCRATCH)
    assert "alpha_rate" not in face.fit()


def test_a_target_in_years_is_centred_only(monkeypatch):
    every = Pictures(pictures(10).x, torch.arange(10.0) * 7)
    monkeypatch.setattr(units_module.images, "faces", lambda places: every)
    cpu = torch.device("cpu")
    scaled_rows, raw = (units_module.parts("faces", [], 0, cpu, unscaled=u) for u in (False, True))
    for part in (scaled_rows, raw):
        assert float(part.train.y.mean()) == pytest.approx(0, abs=1e-5)
    assert raw.scale == 1
    torch.testing.assert_close(raw.test.y, scaled_rows.test.y * scaled_rows.scale)
    assert DeepUnit("faces", "map", 0, "tuned", Course(), unscaled=True).fit() == {
        "set": "faces", "method": "map", "seed": 0, "condition": "tuned", "unscaled": True,
    }  # fmt: skip


def test_a_record_says_how_it_was_made():
    said = []
    unit = DeepUnit("faces", "scroll-diag", 0, course=QUICK)
    _, (line,), _ = vision.trained(unit, parts(False), Small, lambda *how: said.append(how))
    assert line["scores"] == [round(score, 4) for _, score in said]
    assert line["val"] == min(score for _, score in said)
    assert line["device"] == "cpu"
    assert line["seconds"] > 0
    assert line["versions"]["torch"] == torch.__version__


def test_a_run_goes_on_where_it_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(vision, "parts", lambda name, places, seed, *how: parts(True, seed))
    which = list(units("cifar10", ["ova-none", "softmax"], [0, 1], {"scratch": (QUICK,)}))
    run = lambda some: vision.run(
        some, tmp_path, [tmp_path], torch.device("cpu"), lambda text: None, lambda condition: Small
    )
    run(which[:2])
    before = (tmp_path / "cifar10.jsonl").read_text()
    run(which)
    after = (tmp_path / "cifar10.jsonl").read_text()
    assert after.startswith(before)
    fits = [r["fit"] for r in records.load(tmp_path).records]
    assert len(fits) == 8  # a softmax is three
    files = sorted(p.name for p in (tmp_path / "predictions").iterdir())
    assert files == [f"cifar10-{m}-{s}.npz" for m in ("ova-none", "softmax") for s in (0, 1)]


@pytest.mark.parametrize("name", ["block-hybrid-diag", "batch-hybrid-diag"])
@pytest.mark.parametrize("frozen", [True, False])
def test_a_hybrid_trains_in_batches_and_predicts_from_all_pictures(name, frozen):
    """It returns with the posterior of all training pictures, at the epoch of the best score."""
    train, held = pictures(classes=0), pictures(24, classes=0, seed=1)
    torch.manual_seed(0)
    body, head = Small(), NUMBERS[name].head(6, 1, 48)
    scores = []
    course = replace(QUICK, epochs=4, frozen=frozen, head_lr=0.05)
    done = train_network(body, head, train, held, course, lambda e, s: scores.append(s))
    kept = done.head(done.features(held.x)).log_prob(held.y).detach()
    assert -float(kept.mean()) == pytest.approx(min(scores), rel=1e-5)
    again = head.condition(done.features(train.x), train.y)(done.features(held.x))
    torch.testing.assert_close(again.log_prob(held.y).detach(), kept, rtol=1e-4, atol=1e-5)
    assert vision.health(done, train).keys() == {"noise_share", "hard_weight"}
    assert done.others(train).sums.gram.shape == (1, 6, 6)
