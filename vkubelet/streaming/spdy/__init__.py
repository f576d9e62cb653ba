"""SPDY/3.1 as Kubernetes uses it: frames, header compression, connection."""
