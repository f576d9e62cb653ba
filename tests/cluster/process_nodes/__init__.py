"""Physical nodes for test clusters without root: a kubelet whose containers are child processes."""
