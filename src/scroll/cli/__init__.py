"""The command `scroll`."""
