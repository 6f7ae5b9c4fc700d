"""Test-wide settings: Hypothesis profiles and where the shared data lies."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("ci", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("dev", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "dev")

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared() -> Path:
    """The conformance data that no one of this project wrote; without it the tests that need it skip loudly."""
    folder = Path(os.environ.get("MANNERLY_SHARED", ROOT.parent / "shared" / "data"))
    if not (folder / "conformance").is_dir():
        pytest.skip(f"no conformance data at {folder}; set MANNERLY_SHARED to its folder")
    return folder
