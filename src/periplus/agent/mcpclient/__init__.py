"""Client of the Model Context Protocol. Servers are started when their tools are needed, and nothing they say is trusted."""

from periplus.agent.mcpclient.server_entry import Problem, ServerRow

__all__ = ["Problem", "ServerRow"]
