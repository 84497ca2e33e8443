"""GP-RBF: exact Gaussian-process regression as a head on raw inputs, one process per replicate."""

import torch
from torch import Tensor, nn
from torch.linalg import solve_triangular

from scroll._core.linalg import LOG_2PI, cholesky, eye_like, half_log_det, row_square
from scroll.predictive import Normal

Lead = tuple[int, ...]


class Process(nn.Module):
    """y ~ N(0, K + noise^2 I), K_ij = scale^2 exp(-|x_i - x_j|^2 / (2 length^2)), by its
    evidence."""

    batches = False
    inputs: Tensor
    lower: Tensor
    white: Tensor

    def __init__(self, in_features: int, replicates: Lead = ()):
        super().__init__()
        self.replicates = replicates
        self.log_length = nn.Parameter(torch.full(replicates, 0.5 * in_features).sqrt().log())
        self.log_scale = nn.Parameter(torch.zeros(replicates))
        self.log_noise = nn.Parameter(torch.zeros(replicates))
        for name in ("inputs", "lower", "white"):
            self.register_buffer(name, None)  # until it is conditioned

    def loss(self, x: Tensor, y: Tensor, total: int) -> Tensor:
        """-log p(y) / N, (...)."""
        lower, white = self._solved(x, y)
        evidence = -0.5 * (white.square().sum(-1) + y.shape[-1] * LOG_2PI) - half_log_det(lower)
        return (-evidence / total).to(x.dtype)

    @torch.no_grad()
    def condition(self, x: Tensor, y: Tensor) -> "Process":
        """Keep what prediction needs from the training rows."""
        self.inputs = x
        self.lower, self.white = self._solved(x, y)
        return self

    def forward(self, x: Tensor) -> Normal:
        """Return the predictive distribution of each row of x (..., N, D)."""
        across = solve_triangular(self.lower, self._kernel(self.inputs, x), upper=False)
        mean = (across * self.white[..., None]).sum(-2)
        prior = (2 * self.log_scale.double()).exp()[..., None]
        var = (prior - row_square(across.mT)).clamp(min=0)  # at a training row, rounding is all
        noise = self._noise_var()[..., None].expand_as(mean)
        return Normal(*(t.to(x.dtype) for t in (mean, noise, var)))

    def _solved(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """L with L L' = K + noise^2 I, and L^-1 y, in double precision."""
        kernel = self._kernel(x, x)
        lower = cholesky(kernel + self._noise_var()[..., None, None] * eye_like(kernel))
        return lower, solve_triangular(lower, y.to(lower)[..., None], upper=False)[..., 0]

    def _kernel(self, a: Tensor, b: Tensor) -> Tensor:
        a, b = (t.double() / self.log_length.double().exp()[..., None, None] for t in (a, b))
        square = row_square(a)[..., :, None] + row_square(b)[..., None, :] - 2 * a @ b.mT
        return torch.exp(2 * self.log_scale.double()[..., None, None] - 0.5 * square.clamp(min=0))

    def _noise_var(self) -> Tensor:
        return (2 * self.log_noise.double()).exp()
