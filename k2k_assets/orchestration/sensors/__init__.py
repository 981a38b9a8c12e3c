"""The sensors, which request runs."""
