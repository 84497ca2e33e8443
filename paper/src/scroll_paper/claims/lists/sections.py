"""The sections of the paper that claims come from, in its order."""

INTRODUCTION = "Abstract and introduction"
LOSS = "2. Local-consistency loss"
LAST_LAYER = "3. The last layer"
COST = "4. Experiments (i), cost and performance"
WHY = "4. Experiments (ii), why"
LIMITS = "4. Experiments, where SCROLL is not best"
PROOFS = "App. Proofs"
SPACE = "App. Design space"
SETUP = "App. Setup"
POINT = "App. RMSE"
ATTRIBUTION = "App. Full design-space attribution"
PRIOR = "App. Prior-term ablation"
STABILITY = "App. Stability and optimism"
BATCHES = "App. Mini-batching"
TWO = "App. Two-layer results"
TRAJECTORY = "App. Depth trajectory"
BODY = "App. Architecture selection"
DUALITY = "App. The routing-OOD duality"
AGES = "App. End-to-end regression"
LABELS = "App. Classification"
DEPTH = "App. Classification, depth"
IMAGES = "App. Classification, CIFAR-10"

ORDER = (
    INTRODUCTION, LOSS, LAST_LAYER, COST, WHY, LIMITS, PROOFS, SPACE, SETUP, POINT, ATTRIBUTION,
    PRIOR, STABILITY, BATCHES, TWO, TRAJECTORY, BODY, DUALITY, AGES, LABELS, DEPTH, IMAGES,
)  # fmt: skip
