"""Documents and contexts: where they come from and how they are read."""
