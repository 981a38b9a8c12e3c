"""What a session does before it copies: claim, find and check the positions, commit those of new partitions."""
