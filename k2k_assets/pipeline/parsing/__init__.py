"""From the text of pipeline files to one tree of values: YAML, variables, merging, old spellings, faults."""
