"""Removing what a peering left behind, on both sides; level-triggered, so it can be run again."""
