"""Code for all packages: errors, deadlines, offset runs, stop reasons, names, files. No client, no framework."""
