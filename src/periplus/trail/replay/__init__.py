"""Replay of trails: an executor, the worlds that it drives, the capabilities that limit it, and its log."""

from periplus.trail.replay.capability import ACTIONS, Action, Capabilities, Grant
from periplus.trail.replay.command_runner import CommandLimits
from periplus.trail.replay.executor import Replay, ReplayOptions, ReplayReport
from periplus.trail.replay.file_steps import MemoryFolder, edited
from periplus.trail.replay.folder_world import FolderPlan, FolderWorld
from periplus.trail.replay.log import LogHeader, MemoryLog, ReplayLog
from periplus.trail.replay.memory_world import MemoryWorld, PreparedResult
from periplus.trail.replay.result_trail import replay_trail
from periplus.trail.replay.values import Call, Difference, ReadContent, StepResult, digest_text
from periplus.trail.replay.world import DryWorld, World

__all__ = [
    "ACTIONS",
    "Action",
    "Call",
    "Capabilities",
    "CommandLimits",
    "Difference",
    "DryWorld",
    "FolderPlan",
    "FolderWorld",
    "Grant",
    "LogHeader",
    "MemoryFolder",
    "MemoryLog",
    "MemoryWorld",
    "PreparedResult",
    "ReadContent",
    "Replay",
    "ReplayLog",
    "ReplayOptions",
    "ReplayReport",
    "StepResult",
    "World",
    "digest_text",
    "edited",
    "replay_trail",
]
