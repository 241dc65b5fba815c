"""jaato: a context garbage collector for LLM agents."""
