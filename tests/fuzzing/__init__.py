"""Random bad tables, table files and model files, each generated from a seed and a case number.

`tests/cli/test_fuzz.py` runs the first of each; `make fuzz CASES=20000 SEED=7` runs more, and
`make fuzz ONLY=tables:137 SEED=7` runs one again.
"""
