"""Studies with data and a picture of their own."""
