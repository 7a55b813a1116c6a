"""Servers of the Model Context Protocol, whose tools the agent may call: started when they are needed, and never believed."""

from periplus.agent.mcpclient.rows import Problem, ServerRow

__all__ = ["Problem", "ServerRow"]
