"""The claims of the paper as values, each with the check that decides it from the records."""
