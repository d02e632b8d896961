"""raregram measured: `python -m benchmarks`, or a part of it such as `python -m benchmarks.speed`."""
