"""Skills: written ways of working from the user, a trusted project or plugins, and candidates that trails suggest."""

from __future__ import annotations

__all__ = ["FoundSkills", "Skill", "SkillPlace", "SkillProblem", "find_skills", "places_of"]

from periplus.agent.skills.discovery import FoundSkills, SkillPlace, SkillProblem, find_skills, places_of
from periplus.agent.skills.skill import Skill
