"""A slot, which is one copy task: one session after the other, each in the order start, read, commit.

`session.py` shows the order. What comes before the first record is in `start/`, what a poll brings in `read/`, and what
is written and committed in `commit/`.
"""
