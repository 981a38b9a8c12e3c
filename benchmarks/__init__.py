"""Measures the project, and MirrorMaker 2 beside it, on the sandbox's two brokers: `python -m benchmarks`.

Not part of the package, and no test: figures depend on the machine, so they are shown and written down, never asserted.
"""
