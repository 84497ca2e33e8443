"""`python -m scroll` is the command line."""

from scroll_command import main

main()
