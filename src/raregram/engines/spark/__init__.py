"""The Spark engine: the same kernel and the same results on a cluster. Extra `spark`."""
