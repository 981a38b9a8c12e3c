"""The command line: `k2k` (`main.py`), `k2k-tool` and `k2k-offset-mapping`, each with a folder for its commands.

The engine's logic is elsewhere.
"""
