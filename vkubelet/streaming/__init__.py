"""Streaming protocols of the kubelet API without I/O: SPDY, remote command, channels."""
