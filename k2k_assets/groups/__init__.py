"""Moves consumer groups: reads their positions on the source, translates them, and commits them on the target."""
