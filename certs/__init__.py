"""Serving certificates of virtual nodes: keys, signing requests, storage and rotation."""
