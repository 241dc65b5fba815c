"""Implementations of the `Stash` port: in memory, in files, on a Valkey server."""
