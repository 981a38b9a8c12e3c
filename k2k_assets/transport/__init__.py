"""How chunks of records come from the source and go to the target; the copy loop knows only `interface`."""
