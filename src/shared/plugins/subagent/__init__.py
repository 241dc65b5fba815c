"""Subagent configuration, under the names that its users import."""
