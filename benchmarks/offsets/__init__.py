"""Compares the positions of consumer groups on the target, this project's and MirrorMaker 2's, by content.

`python -m benchmarks.offsets`; Linux, Java 17, a quiet machine. What is measured and how is said in `__main__.py`.
"""
