"""Skills: ways of working that are written down, the user's, a trusted project's and plugins'; and those that trails suggest."""

from __future__ import annotations

__all__ = ["FoundSkills", "Skill", "SkillPlace", "SkillProblem", "find_skills", "places_of"]

from periplus.agent.skills.discovery import FoundSkills, SkillPlace, SkillProblem, find_skills, places_of
from periplus.agent.skills.skill import Skill
