"""What goes across beside pods: ConfigMaps and Secrets that they need, tokens, and events back."""
