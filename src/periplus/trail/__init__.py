"""Trails: the record of one agent run as a program, in bytes that a stranger can check."""

from periplus.trail.format.builder import TrailBuilder
from periplus.trail.format.concatenation import Parts, concat, is_concatenation, open_parts
from periplus.trail.format.encoder import encode
from periplus.trail.format.identity import Identity
from periplus.trail.format.reader import TrailReader
from periplus.trail.integrity.recovery import Salvage, salvage
from periplus.trail.integrity.signature import sign, sign_with
from periplus.trail.integrity.step_proof import Opening, StepProof, holds, step_proof
from periplus.trail.integrity.step_proof_file import StepVerdict, is_step_proof, pack_step_proof, verify_step_proof
from periplus.trail.integrity.verification import Check, ObjectReader, Report, Verdict, verify
from periplus.trail.listings.selection import Selection, Sieve
from periplus.trail.listings.step_listing import FORMS, Form, listing, visible
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
from periplus.trail.redactions.withholding import withhold

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
