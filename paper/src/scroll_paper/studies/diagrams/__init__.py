"""Diagrams that are drawn from the library's own values: the cavities and the design space."""
