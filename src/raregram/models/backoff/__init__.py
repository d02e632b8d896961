"""The back-off estimator: parameters, trie, estimate, variance, pruning."""
