"""How a session commits: when, in which order, and what commit and mapping records say."""
