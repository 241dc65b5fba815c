"""Implementations of the `Provider` port, one file each. Nothing here is imported by name."""
