"""The four strategies of the specification, one file each. Decisions only."""
