"""`transform`: records that are left out or changed by the rules of the pipeline file."""
