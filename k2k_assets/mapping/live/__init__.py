"""The mapping topic, followed: what is mapped now, in memory and by the index."""
