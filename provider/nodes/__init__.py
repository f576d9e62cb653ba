"""Virtual nodes from groups of physical nodes."""
