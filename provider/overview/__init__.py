"""What there is of the peerings of a home cluster, as seen from its API alone."""
