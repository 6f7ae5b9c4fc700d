"""What is refused before anything is made or moved, and what `--dry-run` prints: it costs no request and no file."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

from mannerly.cli.assemble import crawl as assemble
from mannerly.cli.assemble.rules import state_database
from mannerly.cli.job import Job
from mannerly.cli.log import check_log_file
from mannerly.model.errors import ConfigRefused
from mannerly.model.url import redacted


def check_ahead(job: Job, *, fresh: bool, log_file: str | None) -> None:
    """Raise ConfigRefused where the run could not begin: state folder, output file, log file. Touches nothing.

    With `fresh` the state that knows of an output file goes away; so a file with anything in it is refused while that
    state still stands in its place, also where it is that very crawl's: its pages are not thrown away unasked.
    """
    folder = job.folder
    check_state(folder, fresh=fresh)
    assemble.check_output_ahead(job.config.output, begins=fresh or not state_database(folder).exists())
    check_log_file(log_file)


def check_state(folder: Path, *, fresh: bool) -> None:
    """Refuse a state folder that cannot be made or written to, and with `fresh` one that is no crawl's."""
    hint = "name another --state folder"
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not stat.S_ISDIR(there.stat().st_mode):
        what = "it is no folder" if there == folder else f"{there} is no folder"
        raise ConfigRefused(f"the state folder {folder} cannot be made: {what}", hint=hint)
    if not os.access(there, os.W_OK | os.X_OK):
        raise ConfigRefused(f"the state folder {folder} cannot be written: permission denied", hint=hint)
    if fresh and there == folder and not state_database(folder).exists() and any(folder.iterdir()):
        raise ConfigRefused(f"{folder} holds no crawl, so --fresh does not move it", hint=hint)


def configuration_used(job: Job) -> str:
    """Return the configuration as JSON, with the seeds that are taken; header values and passwords left out."""
    raw = json.loads(assemble.configuration_text(job.config))
    raw["seeds"] = [seed.text for seed in job.seeds]
    raw["fetch"]["proxy"] = redacted(job.config.fetch.proxy)
    return json.dumps(raw, sort_keys=True)


def anew(job: Job) -> str:
    """Return the options that begin a finished crawl anew."""
    return "--fresh" if job.config.output.file == "-" else "--fresh --overwrite"
