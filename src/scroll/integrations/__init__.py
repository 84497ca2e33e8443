"""Bridges to other libraries: skpro, BoTorch, Matplotlib."""
