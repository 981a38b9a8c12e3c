"""Schema registries: which schema an id stands for, and which id the target's registry has for the same schema."""
