"""Pods of our nodes: what is decided, what is written at home."""
