"""What trained networks report besides their own scores."""
