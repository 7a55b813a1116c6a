"""Servers of the Model Context Protocol, whose tools the agent may call: started when they are needed, and never believed."""

from periplus.agent.mcpclient.server_entry import Problem, ServerRow

__all__ = ["Problem", "ServerRow"]
