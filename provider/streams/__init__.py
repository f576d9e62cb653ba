"""Logs and commands, relayed from the remote API server to the kubelet API's callers."""
