"""Messages of SCIP for the protobuf library, from their documented field numbers: a decoder that shares nothing with the encoder."""

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_FIELD = descriptor_pb2.FieldDescriptorProto
_TYPES = {"string": _FIELD.TYPE_STRING, "int32": _FIELD.TYPE_INT32, "bool": _FIELD.TYPE_BOOL}
# Enums are declared as int32, which has the same bytes. ``*`` marks a repeated field.
_MESSAGES = {
    "Index": {"metadata": (1, "Metadata"), "documents": (2, "*Document"), "external_symbols": (3, "*SymbolInformation")},
    "Metadata": {
        "version": (1, "int32"), "tool_info": (2, "ToolInfo"), "project_root": (3, "string"), "text_document_encoding": (4, "int32"),
    },
    "ToolInfo": {"name": (1, "string"), "version": (2, "string"), "arguments": (3, "*string")},
    "Document": {
        "relative_path": (1, "string"), "occurrences": (2, "*Occurrence"), "symbols": (3, "*SymbolInformation"),
        "language": (4, "string"), "text": (5, "string"), "position_encoding": (6, "int32"),
    },
    "Occurrence": {
        "range": (1, "*int32"), "symbol": (2, "string"), "symbol_roles": (3, "int32"), "override_documentation": (4, "*string"),
        "syntax_kind": (5, "int32"), "enclosing_range": (7, "*int32"),
    },
    "SymbolInformation": {
        "symbol": (1, "string"), "documentation": (3, "*string"), "relationships": (4, "*Relationship"), "kind": (5, "int32"),
        "display_name": (6, "string"), "signature_documentation": (7, "Document"), "enclosing_symbol": (8, "string"),
    },
    "Relationship": {
        "symbol": (1, "string"), "is_reference": (2, "bool"), "is_implementation": (3, "bool"), "is_type_definition": (4, "bool"),
        "is_definition": (5, "bool"),
    },
}  # fmt: skip


def _index_class():
    file = descriptor_pb2.FileDescriptorProto(name="scip_of_tests.proto", package="scip", syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, marked) in fields.items():
            label = _FIELD.LABEL_REPEATED if marked[0] == "*" else _FIELD.LABEL_OPTIONAL
            kind = marked.lstrip("*")
            is_message = kind in _MESSAGES
            added = message.field.add(
                name=field, number=number, label=label, type=_FIELD.TYPE_MESSAGE if is_message else _TYPES[kind]
            )
            if is_message:
                added.type_name = f".scip.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("scip.Index"))


Index = _index_class()
