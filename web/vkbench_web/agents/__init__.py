"""Questions of agents and scripts by the Model Context Protocol: the read API as tools."""
