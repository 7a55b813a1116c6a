"""Code graph in the formats of other tools: JSON, DOT, Mermaid, GraphML and SCIP. Pure: values in, pieces of bytes out."""

from typing import TYPE_CHECKING

from periplus.base.lazy_package import lazily

if TYPE_CHECKING:
    from periplus.code.exports.dot import encode_dot
    from periplus.code.exports.graph import (
        NO_PLACE,
        Graph,
        GraphEdge,
        GraphFile,
        GraphPlace,
        GraphSymbol,
        node_id,
    )
    from periplus.code.exports.graphml import encode_graphml
    from periplus.code.exports.json_document import GRAPH_SCHEMA, encode_json
    from periplus.code.exports.mermaid import MERMAID_CHARACTERS_MAX, MERMAID_EDGES_MAX, encode_mermaid
    from periplus.code.exports.neighbourhood import Neighbourhood, around
    from periplus.code.exports.scip import SCIP_GRADES, encode_scip
else:
    _GRAPH = ("NO_PLACE", "Graph", "GraphEdge", "GraphFile", "GraphPlace", "GraphSymbol", "node_id")
    __getattr__ = lazily(
        __name__,
        {
            **dict.fromkeys(_GRAPH, "graph"),
            **dict.fromkeys(("MERMAID_CHARACTERS_MAX", "MERMAID_EDGES_MAX", "encode_mermaid"), "mermaid"),
            **dict.fromkeys(("SCIP_GRADES", "encode_scip"), "scip"),
            "encode_dot": "dot",
            "encode_graphml": "graphml",
            **dict.fromkeys(("GRAPH_SCHEMA", "encode_json"), "json_document"),
            **dict.fromkeys(("Neighbourhood", "around"), "neighbourhood"),
        },
    )

__all__ = [
    "GRAPH_SCHEMA",
    "MERMAID_CHARACTERS_MAX",
    "MERMAID_EDGES_MAX",
    "NO_PLACE",
    "SCIP_GRADES",
    "Graph",
    "GraphEdge",
    "GraphFile",
    "GraphPlace",
    "GraphSymbol",
    "Neighbourhood",
    "around",
    "encode_dot",
    "encode_graphml",
    "encode_json",
    "encode_mermaid",
    "encode_scip",
    "node_id",
]
