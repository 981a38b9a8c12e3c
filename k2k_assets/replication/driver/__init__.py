"""The driver of an instance: it plans, starts and watches the slots, and reports progress and outcome."""
