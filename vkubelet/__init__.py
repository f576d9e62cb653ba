"""A generic kubelet emulator: registers Nodes, drives pods, serves the kubelet API; any provider."""

__version__ = "0.1.0"
