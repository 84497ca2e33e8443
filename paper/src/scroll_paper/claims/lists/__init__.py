"""All claims, in the order of the paper; one file per part."""

from . import (
    ablations,
    attribution,
    depth,
    features,
    headline,
    labels,
    mathematics,
    networks,
    setup,
    studies,
)
from .sections import ORDER

_LISTS = (
    *(headline, mathematics, studies, setup, attribution, ablations, depth, features),
    *(networks, labels),
)

CLAIMS = tuple(
    sorted((c for part in _LISTS for c in part.CLAIMS), key=lambda c: ORDER.index(c.where))
)
"""Every claim of the page; a new one goes into the list of its part."""
