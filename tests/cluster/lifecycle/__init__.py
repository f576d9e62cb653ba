"""Pods through their whole life, between real clusters."""
