"""The copy engine: a driver plans an instance and watches it, its slots copy."""
