"""Studies of counts: simulated overdispersion, and public tables."""
