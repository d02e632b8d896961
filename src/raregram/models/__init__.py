"""The estimators: from a count table to log ratios."""
