"""What every room uses: errors, deadlines, offset runs, stop reasons, names, files. No client, no framework."""
