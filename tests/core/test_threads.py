"""Threads do not share settings: checks, default precision, random numbers."""

import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from threading import Barrier, Event

import numpy as np
import pytest
import torch
from torch import nn

import scroll
from scroll import RegressionHead, ScrollClassifier, ScrollRegressor
from scroll._core.local_rng import Draws
from scroll.estimators.onnx import quiet
from scroll.training.bodies import Stacked
from scroll.training.network import Network, stack


def assert_a_nan_is_refused():
    with pytest.raises(ValueError, match="`psi` must be finite"):
        RegressionHead(2).loss(torch.full((3, 2), torch.nan), torch.randn(3), total=3)


def test_unchecked_holds_for_its_own_thread_only():
    """Two blocks that overlap and end in the order they began, which once left checks off."""
    entered, one_left = Barrier(3), Barrier(3)

    def first():
        with scroll.unchecked():
            entered.wait(10)
        one_left.wait(10)

    def second():
        with scroll.unchecked():
            entered.wait(10)
            one_left.wait(10)

    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(first), pool.submit(second)]
        entered.wait(10)
        assert_a_nan_is_refused()  # while both are in their blocks
        one_left.wait(10)
        for job in jobs:
            job.result()
    assert_a_nan_is_refused()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's compiler, of torch itself
def test_unchecked_works_inside_compiled_code():
    head, psi, y = RegressionHead(2), torch.randn(3, 2), torch.randn(3)

    @torch.compile(backend="aot_eager")
    def loss():
        with scroll.unchecked():
            return head.loss(psi, y, total=3)

    torch.testing.assert_close(loss(), head.loss(psi, y, total=3))


def table(n=60):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 3))
    return x, x[:, 0] + 0.3 * rng.normal(size=n)


class Noisy(nn.Sequential):
    """A user's body that draws as it starts and as it trains, with no generator of its own."""

    def __init__(self):
        super().__init__(nn.Linear(3, 6), nn.ReLU(), nn.Dropout(0.2), nn.Linear(6, 4))

    def reset_parameters(self):
        for p in self.parameters():
            p.data = torch.rand_like(p) + torch.randn(p.shape) * torch.randint(1, 3, p.shape)


def fits():
    """Twelve seeded fits, of all kinds of target and of initialisation."""
    x, y = table()
    labels, counts = (y > 0).astype(int), np.floor(np.exp(y)).clip(0, 9)
    quick = {"max_steps": 6, "body": "waves"}
    free = quick | {"routing": "free"}
    made = (
        (ScrollRegressor, free | {"n_members": 2, "covariance": "lowrank"}, y),
        (ScrollClassifier, quick | {"n_members": 2}, labels),
        (ScrollRegressor, quick | {"likelihood": "poisson", "n_members": 1}, counts),
        (ScrollRegressor, free | {"body": "matern", "n_members": 1}, y),
        (ScrollRegressor, free | {"body": Noisy(), "n_members": 2}, y),
        (ScrollClassifier, quick | {"body": (8,), "n_members": 2, "ordered": True}, labels),
    )
    return [
        partial(make(random_state=seed, **how).fit, x, target)
        for make, how, target in made
        for seed in (0, 1)
    ]


def state(model):
    return {name: tensor.clone() for name, tensor in model.model_.state_dict().items()}


def assert_equal(ours, theirs):
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        assert tensor.dtype == theirs[name].dtype, name
        torch.testing.assert_close(tensor, theirs[name], rtol=0, atol=0, equal_nan=True)


def test_seeded_fits_in_threads_equal_their_serial_twins():
    torch.set_default_dtype(torch.float32)  # as users have it
    alone = [state(fit()) for fit in fits()]
    with ThreadPoolExecutor(8) as pool:
        jobs = [pool.submit(fit) for fit in fits()]
        assert_a_nan_is_refused()
        together = [state(job.result()) for job in jobs]
    assert_a_nan_is_refused()
    for ours, theirs in zip(together, alone, strict=True):
        assert_equal(ours, theirs)


@pytest.mark.parametrize("number", range(0, 12, 2))
def test_a_fit_depends_on_its_seed_alone(number):
    """Not on torch's default precision, nor on the state of its generator."""
    ours = state(fits()[number]())
    torch.set_default_dtype(torch.float32)
    torch.manual_seed(7)
    assert_equal(ours, state(fits()[number]()))


def test_a_fit_leaves_the_default_precision_alone(monkeypatch):
    """Another thread may be making tensors at any moment."""
    monkeypatch.setattr(torch, "set_default_dtype", lambda dtype: pytest.fail(f"set to {dtype}"))
    for fit in fits()[::2]:
        fit()


@contextmanager
def generators_unmoved():
    def states():
        return torch.get_rng_state().tolist(), str(np.random.get_state())  # noqa: NPY002

    before = states()
    yield
    assert states() == before


def test_the_global_generators_stay_where_they_are(tmp_path):
    (x, _), body = table(), Noisy()
    for number, fit in enumerate(fits()[::2]):
        with generators_unmoved():
            model = fit()
            model.predict(x)
            model.sample(x, 2, random_state=0)
            model.save(path := tmp_path / f"{number}.scroll")
            scroll.load(path, body=body if model.bodies_[0] == "yours" else None)


@pytest.mark.parametrize("family", ["diag", "lowrank"])
def test_a_refit_leaves_the_global_generators_alone(family):
    head, psi, y = RegressionHead(3), torch.randn(40, 3), torch.randn(40)
    with generators_unmoved():
        bound = scroll.refit(head, [(psi, y)]).add([(psi, y)], family=family, steps=3)
        bound.sample_weights(2, torch.Generator().manual_seed(0))


def test_a_stack_starts_as_its_seeds_say():
    """Replicate r is what `torch.manual_seed(r)` makes, by every function that draws."""

    def make(lead):
        body = Noisy()
        body.reset_parameters()
        head = RegressionHead(4, covariance="lowrank", replicates=lead)
        return Network(Stacked(body, 4, lead), head)

    both = stack(make, [3, 5])
    for r, seed in enumerate((3, 5)):
        torch.manual_seed(seed)
        for p, q in zip(both.parameters(), make(()).parameters(), strict=True):
            assert torch.equal(p[r], q)


DRAWS = {
    "with an overload": lambda: torch.rand(3),
    "in place": lambda: torch.empty(3).exponential_(),
    "like another": lambda: torch.randn_like(torch.ones(3)),
    "positional": lambda: torch.distributions.Gamma(torch.ones(3), torch.ones(3)).sample(),
    "without a generator": lambda: torch.ops.aten.native_dropout(torch.ones(50), 0.5, True)[0],
}


@pytest.mark.parametrize("name", DRAWS)
def test_local_draws_are_those_of_the_global_generator(name):
    torch.manual_seed(4)
    want = [DRAWS[name]() for _ in range(2)]
    with generators_unmoved(), Draws(4):
        ours = [DRAWS[name]() for _ in range(2)]
    for a, b in zip(ours, want, strict=True):
        assert torch.equal(a, b)


def test_a_generator_that_is_given_is_used():
    given = torch.Generator().manual_seed(9)
    with Draws(4):
        ours = torch.rand(3, generator=given)
        gamma = torch._standard_gamma(torch.ones(3), given)
    given.manual_seed(9)
    assert torch.equal(ours, torch.rand(3, generator=given))
    assert torch.equal(gamma, torch._standard_gamma(torch.ones(3), given))


def test_exports_that_overlap_leave_warnings_as_they_were():
    before, first_is_in, first_is_out = list(warnings.filters), Event(), Event()

    def first():
        with quiet():
            first_is_in.set()
            time.sleep(0.1)  # in which the second arrives
        first_is_out.set()

    def second():
        first_is_in.wait(10)
        with quiet():
            first_is_out.wait(10)

    with ThreadPoolExecutor(2) as pool:
        for job in [pool.submit(first), pool.submit(second)]:
            job.result()
    assert warnings.filters == before
