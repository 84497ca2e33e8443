"""covariance="auto": which family it picks, and when an explicit choice warns."""

import warnings

import numpy as np
import pytest
import torch

import scroll
from scroll import ClassificationHead, CountHead, Objective, OrdinalHead, RegressionHead
from scroll.beliefs.families import LargeCovariance
from scroll.objectives.routes import conjugate, conjugate_diag


def made(make):
    """A head on the meta device: even the largest takes no memory."""
    with torch.device("meta"):
        return make()


SIZES = [
    (lambda: RegressionHead(128), "full"),
    (lambda: RegressionHead(1024), "full"),
    (lambda: RegressionHead(1025), "lowrank"),
    (lambda: RegressionHead(128, 64), "full"),
    (lambda: ClassificationHead(128, 64), "full"),
    (lambda: ClassificationHead(128, 65), "lowrank"),
    (lambda: ClassificationHead(512, 4), "full"),
    (lambda: ClassificationHead(512, 100), "lowrank"),
    (lambda: ClassificationHead(512, 1000), "lowrank"),
    (lambda: ClassificationHead(512, 5000), "diag"),
    (lambda: ClassificationHead(np.int64(2048), 1000), "diag"),
    (lambda: ClassificationHead(1024, 2, "probit"), "full"),
    (lambda: OrdinalHead(1024, 1000), "full"),
    (lambda: CountHead(2048), "lowrank"),
]


@pytest.mark.parametrize(("make", "want"), SIZES)
def test_the_family_goes_by_size(make, want):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        head = made(make)
    assert head.covariance == want
    assert type(head.family).__name__.lower() == f"{want}family"
    assert f"covariance={want!r}" in repr(head)


def test_auto_is_the_default_and_full_for_small_heads():
    for make in (RegressionHead, CountHead, lambda h, **k: ClassificationHead(h, 3, **k)):
        torch.manual_seed(0)
        default = make(5)
        torch.manual_seed(0)
        full = make(5, covariance="full")
        assert default.covariance == "full"
        torch.testing.assert_close(default.state_dict(), full.state_dict(), rtol=0, atol=0)


def test_auto_keeps_to_the_families_of_the_method():
    """A bound belief has the posterior's covariance, whatever its size."""
    picked = {"closed": "full", "loo": "full", "evidence": "full", "map": "none"}
    for method, want in picked.items():
        assert made(lambda m=method: RegressionHead(2000, method=m)).covariance == want
    assert made(lambda: RegressionHead(2000, method="hybrid")).covariance == "lowrank"
    assert made(lambda: RegressionHead(2000, method=Objective(conjugate))).covariance == "full"
    assert made(lambda: RegressionHead(20, method=Objective(conjugate_diag))).covariance == "diag"
    assert made(lambda: RegressionHead(2000, method=Objective())).covariance == "lowrank"
    with pytest.raises(ValueError, match="`method` must be one of"):
        RegressionHead(5, method="magic")
    with pytest.raises(ValueError, match=r"`covariance` must be one of .*'auto', but got 'best'"):
        RegressionHead(5, covariance="best")


def test_a_heavy_full_covariance_warns_once_and_early():
    """The warning comes before the memory is allocated, even where the allocation fails."""
    want = r"512 features and 1000 outputs trains 262 million numbers \(3.9 GiB.*'lowrank' here"
    with torch.device("meta"), pytest.warns(LargeCovariance, match=want) as seen:
        ClassificationHead(512, 1000, covariance="full")
    assert len(seen) == 1
    assert seen[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(LargeCovariance):  # nothing is made first
            ClassificationHead(100_000, 100_000, covariance="full")
        made(lambda: ClassificationHead(512, 32, covariance="full"))
        made(lambda: ClassificationHead(512, 1000, covariance="diag"))


def test_a_step_with_many_classes_stays_small():
    """512 features, 1,000 classes: about a million numbers instead of 263 million."""
    torch.set_default_dtype(torch.float32)
    head = ClassificationHead(512, 1000)
    assert sum(p.numel() for p in head.parameters()) < 1.1e6
    head.loss(torch.randn(8, 512), torch.randint(1000, (8,)), total=8).backward()


def test_estimators_save_the_family_that_was_picked(tmp_path):
    """They mix members and choose a route, for which a diagonal belief is enough."""
    rng = np.random.default_rng(0)
    y = np.arange(140) % 70
    model = scroll.ScrollClassifier(body="smooth", n_members=1, max_steps=2, random_state=0)
    model.fit(rng.normal(size=(140, 2)), y)
    assert model.covariance == "auto"
    assert model.model_.spec.covariance == "diag"
    model.save(tmp_path / "m.scroll")
    loaded = scroll.load(tmp_path / "m.scroll")
    assert loaded.covariance == "auto"
    assert loaded.model_.spec.covariance == "diag"
    x = rng.normal(size=(5, 2))
    np.testing.assert_array_equal(loaded.predict_proba(x), model.predict_proba(x))
    how = {"n_members": 1, "max_steps": 2, "random_state": 0}
    x, noise = rng.normal(size=(60, 2)), rng.normal(size=60)
    for more, want in (
        ({"body": "smooth"}, "diag"),
        ({"body": "smooth", "covariance": "lowrank"}, "lowrank"),
        ({"recipe": "paper"}, "full"),
    ):
        numbers = scroll.ScrollRegressor(**how, **more).fit(x, noise)
        assert numbers.model_.spec.covariance == want
        assert numbers.model_.each[0].head.covariance == want
