"""The mathematics: each statement names the tests that prove it."""

from ..claim import Claim, proved
from .sections import LABELS, LAST_LAYER, LOSS, PROOFS, SPACE

IDENTITIES = "objectives/test_identities.py"
FACTORS = "factors/test_factors.py"


def identity(where: str, statement: str, *names: str) -> Claim:
    """Return a claim that the identities prove."""
    return proved(where, statement, *(f"{IDENTITIES}::{name}" for name in names))


CLAIMS = [
    identity(
        LOSS,
        "Lemma (binding): the ELBO is greatest at the posterior, or at its projection onto the "
        "family.",
        "test_04_the_maximiser_of_the_elbo_is_the_binding",
        "test_04_the_elbo_is_below_the_evidence_and_touches_it_at_the_posterior",
    ),
    identity(
        LOSS,
        "Proposition (Bethe decomposition) and corollary (remainder): the Bethe expression is the "
        "shared-cavity loss plus a mismatch term in closed form.",
        "test_15_the_remainder_of_the_bethe_free_energy",
    ),
    proved(
        LOSS,
        "Proposition (score optimality): a data term is exactly the log score of the prediction.",
        "heads/test_heads.py::test_the_loss_is_the_score_of_the_predictive",
        f"{IDENTITIES}::test_09_the_pointwise_optimum_of_the_variance_is_the_squared_residual",
    ),
    identity(
        LOSS,
        "Lemma (routes): on any data the free optimum is never above the closed one.",
        "test_12_the_free_optimum_is_never_above_the_closed",
    ),
    proved(
        LOSS,
        "Corollary (single pass): prior and noise are learned with the network; at the sequential "
        "closed corner this is type-II maximum likelihood.",
        "heads/test_heads.py::test_alpha_is_learned_or_not_as_the_method_says",
        "posterior/test_posterior.py::test_evidence_is_scikit_learns",
    ),
    proved(
        LOSS,
        "Proposition (deterministic subgraphs): below the last layer nothing is left in the loss; "
        "the body trains by back-propagation.",
        "heads/test_heads.py::test_it_replaces_the_last_layer_of_a_network",
        "heads/test_prior_gradient.py::test_the_loss_is_the_sum_of_its_data_and_prior_parts",
    ),
    identity(
        LAST_LAYER,
        "Proposition (SCROLL): the loss of a Gaussian last layer is the shared-cavity loss.",
        "test_13_marginals_are_the_joint_and_the_total_correlation",
        "test_15_the_remainder_of_the_bethe_free_energy",
    ),
    proved(
        LAST_LAYER,
        "Corollary (conjugate binding): the posterior is in closed form.",
        f"{IDENTITIES}::test_04_the_maximiser_of_the_elbo_is_the_binding",
        "posterior/test_posterior.py::test_leverage_is_the_hat_matrix",
    ),
    identity(
        LAST_LAYER,
        "Proposition (exact corner): sequential scores add up to the log evidence, in any order.",
        "test_01_sequential_scores_add_up_to_the_evidence",
        "test_01_each_sequential_score_is_the_prediction_from_the_points_before",
    ),
    identity(
        LAST_LAYER,
        "Theorem (gap): closed minus free risk is the Jensen gap of the residual variance.",
        "test_10_the_routing_gap_is_the_jensen_gap_of_the_noise",
        "test_09_the_pointwise_optimum_of_the_variance_is_the_squared_residual",
    ),
    proved(
        LAST_LAYER,
        "Corollary (i): only the total variance is identified; on interpolated data the noise "
        "collapses.",
        "heads/test_diagnosis.py::test_noise_collapses_on_interpolated_data_and_not_on_noisy_data",
    ),
    proved(
        LAST_LAYER,
        "Corollary (ii): the gradient in alpha vanishes like alpha^-2; the sign of a trace decides "
        "whether alpha runs away.",
        f"{IDENTITIES}::test_07_gradient_in_alpha_and_its_limits",
        "heads/test_diagnosis.py::test_runaway_has_the_sign_of_the_papers_trace",
    ),
    identity(
        LAST_LAYER,
        "Remark (gauge): rescaling the features changes no prediction and lowers the prior term.",
        "test_08_gauge",
    ),
    proved(
        LAST_LAYER,
        "Algorithm: one gradient loop trains everything, on all rows or in batches; a prediction "
        "is one pass.",
        "heads/test_heads.py::test_trains_and_predicts_in_either_precision",
        "objectives/test_objectives.py::test_mini_batches_average_to_the_full_loss",
    ),
    proved(
        LAST_LAYER,
        "On the closed route gradients flow through the posterior.",
        "objectives/test_objectives.py::test_gradients_by_finite_differences",
    ),
    identity(
        PROOFS,
        "Proposition (Bethe and ELBO): the score of the mean is at most the mean of the score.",
        "test_05_the_score_of_the_mean_is_below_the_mean_of_the_score",
    ),
    identity(
        PROOFS,
        "Proposition (aggregation): marginal scores are the joint score plus the total "
        "correlation.",
        "test_13_marginals_are_the_joint_and_the_total_correlation",
    ),
    identity(PROOFS, "Remark (MAP): a point belief gives MAP.", "test_06_a_point_belief_is_map"),
    proved(
        PROOFS,
        "Corollary (any likelihood): the score is defined, and proper, for every bounded factor.",
        f"{FACTORS}::test_log_marginal_is_the_integral",
        "objectives/test_objectives.py::test_scores_take_any_factor",
    ),
    identity(
        PROOFS,
        "Lemma (shared and leave-one-out): their difference per row has a closed form and is "
        "never negative.",
        "test_03_the_shared_score_is_optimistic_by_a_closed_form",
        "test_02_leave_one_out_is_n_refits",
    ),
    identity(
        PROOFS,
        "Proposition (overdispersion): the derivative of the risk at zero variance is minus half "
        "of kappa; kappa has the stated form for Gaussian and Poisson factors.",
        "test_11_overdispersion_score",
    ),
    proved(
        PROOFS,
        "Lemma (quadrature): the error of Gauss-Hermite nodes is within its bound; 32 nodes give "
        "the probit to 1e-5.",
        f"{FACTORS}::test_hermite_error_is_within_its_certificate",
        f"{FACTORS}::test_closed_forms_are_what_quadrature_finds",
    ),
    identity(
        PROOFS,
        "Remark (reweighting): detached weights leave the optimum of each row where it is.",
        "test_16_detached_reweighting_leaves_the_pointwise_minimiser",
    ),
    proved(
        PROOFS,
        "Remark (second moments): the belief enters a score by its mean and variance on that row.",
        f"{FACTORS}::test_log_marginal_is_the_integral",
    ),
    identity(
        PROOFS,
        "Figure (cavities): sequential, leave-one-out and shared beliefs see the rows before, all "
        "others, and all.",
        "test_01_each_sequential_score_is_the_prediction_from_the_points_before",
        "test_02_leave_one_out_is_n_refits",
        "test_03_the_shared_score_is_optimistic_by_a_closed_form",
    ),
    identity(
        PROOFS,
        "Figure (factor graph): on it, the Bethe free energy at the posterior is minus the log "
        "evidence.",
        "test_15_the_remainder_of_the_bethe_free_energy",
    ),
    proved(
        SPACE,
        "Figure (map): every cell with a name is a row of `METHODS`; the empty cells are refused.",
        "objectives/test_objectives.py::test_methods_hold_every_row_of_the_design_space",
        "objectives/test_objectives.py::test_a_wrong_combination_names_the_remedy",
    ),
    proved(
        SPACE,
        "Without a network, the free data term is the likelihood of a linear model with random "
        "coefficients.",
        "heads/test_heads.py::test_the_loss_is_the_score_of_the_predictive",
    ),
    proved(
        SPACE,
        "A linear model on uneven noise: free 1.649, closed 1.970, free within 0.015 of the truth.",
        "paper/models/test_depth_zero.py::test_heteroscedastic_noise_separates_the_routes",
    ),
    proved(
        SPACE,
        "A linear model on even noise: both routes have the printed NLL, 1.4154 (within 0.02).",
        "paper/models/test_depth_zero.py::test_homoscedastic_noise_does_not",
    ),
    identity(
        LABELS,
        "Proposition (probit): the loss of a probit head is in closed form, and so is the ordinal "
        "one.",
        "test_14_probit_and_ordinal_closed_forms_are_their_quadrature",
    ),
    proved(
        LABELS,
        "With two levels the ordinal head is the probit head.",
        f"{FACTORS}::test_two_ordered_levels_are_the_probit",
    ),
]
