"""Builders of tables that the paper does not have."""
