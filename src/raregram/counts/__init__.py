"""The count table, and the engine that fills it."""
