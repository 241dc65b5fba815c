"""Message types, under the names that their users import."""
