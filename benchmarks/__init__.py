"""raregram measured: `python -m benchmarks.core` and so on, from the project's folder."""
