"""The copy engine: the driver plans and watches an instance, and its slots copy."""
