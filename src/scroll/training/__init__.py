"""Training stacks of networks: bodies, batches, optimiser, loop."""
