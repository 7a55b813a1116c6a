"""Trails: the record of one agent run as a program, in bytes that a stranger can check."""

from periplus.trail.builder import TrailBuilder
from periplus.trail.codec import encode
from periplus.trail.identity import Identity
from periplus.trail.model import (
    OUTCOMES,
    STATUSES,
    Digest,
    Header,
    OperandValue,
    Outcome,
    Signed,
    Status,
    Step,
    Text,
    TextObject,
    Withheld,
)
from periplus.trail.opcodes import BY_CODE, BY_NAME, OPCODES, Opcode, Operand, OperandKind, opcode_name
from periplus.trail.parts import Parts, concat, is_concatenation, open_parts
from periplus.trail.prove import Opening, StepProof, holds, step_proof
from periplus.trail.reader import TrailReader
from periplus.trail.recovery import Salvage, salvage
from periplus.trail.redact import withhold
from periplus.trail.selection import Selection, Sieve
from periplus.trail.signing import sign, sign_with
from periplus.trail.step_file import StepVerdict, is_step_proof, pack_step_proof, verify_step_proof
from periplus.trail.step_listing import FORMS, Form, listing, visible
from periplus.trail.verification import Check, ObjectReader, Report, Verdict, verify

__all__ = [
    "BY_CODE",
    "BY_NAME",
    "FORMS",
    "OPCODES",
    "OUTCOMES",
    "STATUSES",
    "Check",
    "Digest",
    "Form",
    "Header",
    "Identity",
    "ObjectReader",
    "Opcode",
    "Opening",
    "Operand",
    "OperandKind",
    "OperandValue",
    "Outcome",
    "Parts",
    "Report",
    "Salvage",
    "Selection",
    "Sieve",
    "Signed",
    "Status",
    "Step",
    "StepProof",
    "StepVerdict",
    "Text",
    "TextObject",
    "TrailBuilder",
    "TrailReader",
    "Verdict",
    "Withheld",
    "concat",
    "encode",
    "holds",
    "is_concatenation",
    "is_step_proof",
    "listing",
    "opcode_name",
    "open_parts",
    "pack_step_proof",
    "salvage",
    "sign",
    "sign_with",
    "step_proof",
    "verify",
    "verify_step_proof",
    "visible",
    "withhold",
]
