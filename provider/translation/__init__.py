"""Home pod to remote pod and remote status to home status: pure functions on raw JSON."""
