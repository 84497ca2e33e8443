"""The paper's experiments: data, protocol, baselines, records of runs, tables."""
