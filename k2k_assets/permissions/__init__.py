"""What each program may do on each cluster: the list, the commands that grant it, and the check at the start."""
