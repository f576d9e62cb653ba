"""Pods in the remote cluster: namespaces, creation, deletion, status."""
