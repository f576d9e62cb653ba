"""A generic kubelet: registers Nodes, drives pods, serves the kubelet API; for any provider."""

__version__ = "0.1.0"
