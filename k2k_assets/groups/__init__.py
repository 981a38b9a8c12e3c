"""Consumer groups: where they stand on the source, where that is on the target, and the guarded commits in between."""
