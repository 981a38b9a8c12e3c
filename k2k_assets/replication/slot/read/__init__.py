"""How records come into a session: the throttle, the watch over a silent source, the stages."""
