"""Tests of the tables that notebooks read."""
