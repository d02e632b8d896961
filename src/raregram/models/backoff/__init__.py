"""The back-off estimator: parameters, layers of suffixes, estimate, variance, pruning."""
