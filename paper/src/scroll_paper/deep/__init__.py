"""Networks trained end to end on images."""
