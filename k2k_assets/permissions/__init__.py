"""The permissions of each program on each cluster: the list, commands that grant them, and the check at the start."""
