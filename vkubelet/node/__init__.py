"""Nodes: registration, status, Lease."""
