"""Implementations of the `Tool` port (Python callables, MCP servers), and a session's catalogue.

No optional package is loaded before a tool that needs it is built.
"""

from jaato.tools.callables import FunctionTool, tool
from jaato.tools.catalogue import Catalogue
from jaato.tools.context import ToolContext, calling, current_context
from jaato.tools.find import FIND_TOOLS, FindTools
from jaato.tools.intake import as_tools
from jaato.tools.mcp import McpServerTools, McpTool
from jaato.tools.mcp_link import McpConnectionError
from jaato.tools.results import output_of

__all__ = [
    "FIND_TOOLS",
    "Catalogue",
    "FindTools",
    "FunctionTool",
    "McpConnectionError",
    "McpServerTools",
    "McpTool",
    "ToolContext",
    "as_tools",
    "calling",
    "current_context",
    "output_of",
    "tool",
]
