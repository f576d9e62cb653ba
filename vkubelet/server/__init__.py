"""The kubelet's HTTPS API: a TLS port for each virtual node, authentication, endpoints, streams."""
