"""The demo: everything at once on the sandbox, with a summary; and the same clusters under Dagster's UI."""
