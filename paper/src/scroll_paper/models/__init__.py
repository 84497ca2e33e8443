"""Methods of the tables: one row each, with the baselines."""
