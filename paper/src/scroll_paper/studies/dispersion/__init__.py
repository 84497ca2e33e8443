"""The study of counts: overdispersion, simulated and on public counts."""
