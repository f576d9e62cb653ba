"""What remote pods use, from the metrics API of the remote cluster."""
