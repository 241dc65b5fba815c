"""The agent loop whose context always fits: pure decisions, and the one loop that awaits."""
