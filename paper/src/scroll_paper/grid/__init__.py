"""The grid of fits: what is missing from the records, trained in stacks."""
