"""An instance as a whole: plan, start, watch, progress, outcome."""
