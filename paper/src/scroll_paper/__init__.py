"""The paper's experiments: data, protocol, references, records of runs, tables."""
