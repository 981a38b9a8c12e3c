"""For tools that still look for setup.py; the metadata is in pyproject.toml."""

from setuptools import setup

setup()
