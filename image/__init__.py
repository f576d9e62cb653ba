"""Builds the container image without a container engine or registry, from one list of contents."""
