"""The virtual-kubelet project's own end-to-end suite, against a virtual node."""
