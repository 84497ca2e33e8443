"""Data sets: tables, texts and images by name, their splits and scaling."""
