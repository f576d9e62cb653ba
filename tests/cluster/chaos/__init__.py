"""Whatever fails, both sides agree in the end."""
