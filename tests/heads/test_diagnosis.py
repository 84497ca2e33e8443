"""`diagnose` detects noise collapse, prior-precision runaway and attenuation."""

import numpy as np
import pytest
import torch

from scroll import ClassificationHead, RegressionHead

H = 4


def with_belief(mean, std, noise=1.0, **kwargs):
    head = RegressionHead(H, covariance="diag", floor=0.0, noise=noise, **kwargs)
    with torch.no_grad():
        head.mean.copy_(torch.full((1, H), mean))
        head.family.log_var.copy_(2 * torch.full((1, H), std).log())
    return head


def test_a_healthy_head():
    found = with_belief(1.0, 0.1).diagnose()
    assert found.healthy
    assert not found.noise_collapsed
    assert not found.alpha_runs_away
    assert str(found).count("Healthy") == 2


def test_noise_collapse_is_a_share_of_the_variance():
    head = with_belief(1.0, 1.0, noise=0.01)
    found = head.diagnose()
    assert found.noise_collapsed
    assert "Noise collapse" in str(found)
    assert "Reimpose the binding: scroll.refit(head, psi, y)" in str(found)
    share = 1e-4 / (1e-4 + H)
    np.testing.assert_allclose(found.noise_share.numpy(), [share], rtol=1e-12)
    small = 0.01 * torch.ones(7, H)  # features so small that the belief adds little
    assert not head.diagnose(small).noise_collapsed
    np.testing.assert_allclose(
        head.diagnose(small).noise_share.numpy(), [1e-4 / (1e-4 + H * 1e-4)], rtol=1e-12
    )


def test_noise_collapses_on_interpolated_data_and_not_on_noisy_data():
    """Cor. pathologies (i), by training: as many points as features, then many more."""
    torch.manual_seed(0)
    for n, collapsed in ((5, True), (400, False)):
        psi = torch.randn(n, 8)
        y = torch.randn(n)
        head = RegressionHead(8, covariance="diag", floor=0.0, alpha=1e-3, method="fixed-alpha")
        variables = [p for p in head.parameters() if p.requires_grad]
        lbfgs = torch.optim.LBFGS(variables, max_iter=300, line_search_fn="strong_wolfe")

        def closure(head=head, lbfgs=lbfgs, psi=psi, y=y):
            lbfgs.zero_grad()
            loss = head.loss(psi, y, total=len(y))
            loss.backward()
            return loss

        lbfgs.step(closure)
        noise = head.likelihood.log_noise.exp().item()
        assert (noise < 0.01) == collapsed
        if collapsed:
            assert (y - head(psi).mean).abs().max() < 0.05


def test_runaway_has_the_sign_of_the_papers_trace():
    for mean, std in ((0.01, 1.0), (3.0, 1.0)):
        head = with_belief(mean, std)
        found = head.diagnose()
        want = H / std**2 - H * mean**2 / std**4
        np.testing.assert_allclose(found.runaway.numpy(), [want], rtol=1e-9)
        assert found.alpha_runs_away == (want > 0)
        # alpha follows this sign: start where it dominates S and follow its gradient
        with torch.no_grad():
            head.log_alpha.fill_(np.log(1e5))
        head.loss(torch.randn(9, H), torch.randn(9), total=9).backward()
        assert (head.log_alpha.grad.item() < 0) == found.alpha_runs_away
    assert "method='closed'" in str(with_belief(0.01, 1.0).diagnose())


def test_runaway_with_full_and_low_rank_covariances():
    for covariance in ("full", "lowrank"):
        head = RegressionHead(H, covariance=covariance, rank=2)
        found = head.diagnose()
        s = head.belief().cov.dense()[0].detach().numpy()
        inverse, mu = np.linalg.inv(s), head.mean[0].detach().numpy()
        want = np.trace(inverse) - mu @ inverse @ inverse @ mu
        np.testing.assert_allclose(found.runaway.numpy(), [want], rtol=1e-8)


@pytest.mark.parametrize("method", ["hybrid", "block-hybrid"])
def test_what_a_hybrid_adds_is_judged(method):
    """Its noise can collapse, and rows can lose their weight; against numpy."""
    g = torch.Generator().manual_seed(0)
    psi, y = torch.randn(40, H, generator=g), torch.randn(40, generator=g)
    head = RegressionHead(H, covariance="diag", method=method, noise=0.1, init_std=2.0)
    head.condition(psi, y)
    found, at = head.diagnose(psi, y), head(psi)
    share = 0.01 / (0.01 + at.belief_var.mean().item())
    np.testing.assert_allclose(found.noise_share.item(), share, rtol=1e-9)
    size, weight = (y - at.mean).abs(), 1 / at.variance
    hard = size >= size.sort().values[-5]  # a tenth of the rows lies above it
    want = (weight[hard].mean() / weight.mean()).item()
    np.testing.assert_allclose(found.hard_weight.item(), want, rtol=1e-9)
    assert found.runaway is None


def test_the_text_names_what_cannot_happen():
    bound = RegressionHead(H, method="closed").diagnose()
    assert bound.healthy
    assert "binds the belief" in str(bound)
    point = RegressionHead(H, covariance="none").diagnose()
    assert point.healthy
    assert point.noise_share is None
    assert point.runaway is None
    probit = ClassificationHead(H, 3).diagnose()
    assert probit.noise_share is None
    assert probit.runaway.shape == (3,)
    fixed = RegressionHead(H, method="fixed-alpha").diagnose()
    assert fixed.runaway is None


def test_attenuation_is_the_relative_weight_of_hard_rows():
    """Variances that grow with the residuals, against numpy."""
    g = torch.Generator().manual_seed(0)
    head = with_belief(0.0, 1.0, noise=0.3)
    psi = torch.randn(400, H, generator=g)
    y = psi.square().sum(-1).sqrt() * torch.randn(400, generator=g)  # r ~ N(0, |psi|^2)
    found = head.diagnose(psi, y)
    weight = 1 / (0.09 + psi.square().sum(-1).numpy())
    size = np.abs(y.numpy() - head(psi).mean.detach().numpy())
    hard = np.argsort(size)[-41:]
    expected = weight[hard].mean() / weight.mean()
    np.testing.assert_allclose(found.hard_weight.numpy(), [expected], rtol=1e-10)
    assert found.gives_up
    assert not found.healthy
    assert "beta=0.5" in str(found)


def test_a_variance_that_all_rows_share_attenuates_nothing():
    psi, y = torch.randn(200, H), torch.randn(200)
    found = with_belief(0.0, 1e-6).diagnose(psi, y)
    np.testing.assert_allclose(found.hard_weight.numpy(), [1.0], rtol=1e-9)
    assert not found.gives_up
    assert with_belief(0.0, 1.0).diagnose(psi).hard_weight is None
    assert RegressionHead(H, covariance="none").diagnose(psi, y).hard_weight is None
    assert ClassificationHead(H, 2).diagnose(psi, (y > 0).long()).hard_weight is None


def test_every_class_of_gaussreg_is_diagnosed():
    torch.manual_seed(0)
    head = ClassificationHead(H, 3, "gaussreg", "diag")
    psi, y = torch.randn(90, H), torch.randint(3, (90,))
    assert head.diagnose(psi, y).hard_weight.shape == (3,)


def test_targets_without_features_are_refused():
    with pytest.raises(ValueError, match="`psi` must be given with y, but got None"):
        RegressionHead(H).diagnose(y=torch.zeros(5))


def test_a_diagnosis_in_inference_mode_is_the_same():
    head, psi, y = RegressionHead(4), torch.randn(30, 4), torch.randn(30)
    want = str(head.diagnose(psi, y))
    with torch.inference_mode():
        assert str(head.diagnose(psi * 1, y * 1)) == want


def test_the_text_of_a_belief_without_variance():
    head = RegressionHead(4, covariance="none")
    assert "Noise: all of the predictive variance" in str(head.diagnose(torch.randn(9, 4)))
