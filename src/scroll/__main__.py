"""`python -m scroll` is the command line."""

from .cli import app

app(prog_name="scroll")
