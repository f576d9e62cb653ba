"""The remote cluster behind vkubelet's provider interface, and the process that runs it."""
