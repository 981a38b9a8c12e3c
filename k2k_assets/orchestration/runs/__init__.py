"""What every long run has: its tags and heartbeats, its window, how often it reports, and how it ends."""
