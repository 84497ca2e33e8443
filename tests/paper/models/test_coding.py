"""Code length of the targets, and training without validation rows."""

import numpy as np
import pytest
import torch
from scipy import stats

from scroll.training.batches import Rows
from scroll_paper.data.protocol import Folds
from scroll_paper.grid.plan import Group, Unit, Work, gathered
from scroll_paper.grid.stacks import train_stack
from scroll_paper.models.evaluation import Fitted
from scroll_paper.models.method import Setting, prepared
from scroll_paper.models.methods import TABLE_METHODS
from scroll_paper.models.reports.coding import code_length, coded

R, N = 2, 30


def rows(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(R, n, 3, generator=g)
    return Rows(x, x[..., 0] + 0.3 * torch.randn(R, n, generator=g))


def folds():
    return Folds(rows(N, 0), rows(10, 1), rows(12, 2))


def untrained(name):
    training = TABLE_METHODS[name].training
    network = prepared(training, Setting("yacht", name, width=6), ["relu"] * R, [0, 1], [None] * R,
                       rows(N, 0)).double()  # fmt: skip
    g = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for p in network.head.parameters():
            p.add_(0.2 * torch.randn(p.shape, generator=g))
    return network


def test_the_code_length_of_a_posterior_is_minus_its_log_evidence():
    network, some = untrained("coded-evidence"), rows(N, 0)
    found = code_length(network, some)
    for r in range(R):
        psi = network.body(some.x)[r].detach().numpy()
        alpha, noise = (t[r].exp().item() for t in
                        (network.head.log_alpha, network.head.likelihood.log_noise))  # fmt: skip
        cov = psi @ psi.T / alpha + noise**2 * np.eye(N)
        want = -stats.multivariate_normal.logpdf(some.y[r], np.zeros(N), cov) / N
        assert found[r].item() == pytest.approx(want, rel=1e-9)


@pytest.mark.parametrize("name", ["prequential-diag", "coded-hybrid-diag"])
def test_the_code_length_with_added_covariance_is_the_prequential_loss(name):
    """Of the hybrid too, whose own loss leaves one out; against refits to the rows before."""
    network, some = untrained(name), rows(N, 0)
    head = network.head
    found = code_length(network, some)
    for r in range(R):
        psi, y = network.body(some.x)[r].detach().numpy(), some.y[r].numpy()
        alpha, site = (t[r].exp().item() for t in (head.log_alpha, head.log_site_noise))
        added = head.family().dense()[r, 0].detach().numpy()
        noise, nll = head.likelihood.log_noise[r].exp().item(), 0.0
        for n in range(N):
            a = psi[:n].T @ psi[:n] / site**2 + alpha * np.eye(6)
            mean = np.linalg.solve(a, psi[:n].T @ y[:n] / site**2) @ psi[n]
            var = psi[n] @ (np.linalg.inv(a) + added) @ psi[n] + noise**2
            nll -= stats.norm.logpdf(y[n], mean, var**0.5)
        assert found[r].item() == pytest.approx(nll / N, rel=1e-9)
    loss = head.loss(network.body(some.x), some.y, total=N)
    assert torch.allclose(loss, found) == (name == "prequential-diag")


def test_the_code_length_chooses_in_a_line_of_its_own():
    network, data = untrained("prequential-diag"), folds()
    network.condition(data.train)
    with torch.no_grad():
        lines = coded("by-code")(Fitted(network, data))
        code = code_length(network, data.train)
        alone = coded("")(Fitted(network, data))[""]
    assert lines.keys() == {"", "by-code"}
    torch.testing.assert_close(lines[""].metrics["code"], code)
    torch.testing.assert_close(lines["by-code"].val, code)
    torch.testing.assert_close(alone.val, code)
    assert not torch.allclose(lines[""].val, code)
    torch.testing.assert_close(lines["by-code"].metrics["nll"], lines[""].metrics["nll"])


def test_without_validation_rows_training_has_them_all():
    joined = TABLE_METHODS["prequential-diag-all-rows"].training
    data = folds()
    found = gathered(joined, data)
    for part in (found.train, found.val):
        torch.testing.assert_close(part.x, torch.cat([data.train.x, data.val.x], 1))
        torch.testing.assert_close(part.y, torch.cat([data.train.y, data.val.y], 1))
    assert found.test is data.test
    assert gathered(TABLE_METHODS["prequential-diag"].training, data) is data


def test_validation_rows_count_as_training_rows_in_a_stack():
    """Two splits of the same rows into training and validation give the same records."""
    torch.set_default_dtype(torch.float32)
    whole, test = rows(N + 10, 0), rows(12, 2)
    unit = Unit(
        Work(Setting("yacht", "prequential-diag-all-rows", width=6, steps=30), (0, 1), ("relu",)),
        [Group("relu", s, None, 0) for s in (0, 1)],
    )

    def records(n):
        parts = (Rows(whole.x[:, some].float(), whole.y[:, some].float())
                 for some in (slice(n), slice(n, None)))  # fmt: skip
        data = Folds(*parts, Rows(test.x.float(), test.y.float()))
        return [(r["fit"], r["metrics"], r["val"]) for lot in train_stack(unit, data) for r in lot]

    assert records(N) == records(N - 5)
    for _, metrics, val in records(N):
        assert metrics["code"] == val
