"""Which sink `-o` means: CSV for a name that ends in `.csv`, JSON Lines for every other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from mannerly.model.config import OutputConfig
from mannerly.ports import Sink
from mannerly.sink.csv import CsvSink
from mannerly.sink.jsonl import JsonlSink
from mannerly.sink.output import output_named
from mannerly.sink.output_file import Leave


def choose_sink(
    config: OutputConfig,
    *,
    crawl: str,
    fields: Sequence[str] = (),
    journal_whole: bool = True,
    around: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Sink:
    """Return the sink for the configured output, not yet opened; raise ConfigRefused where no page can go.

    fields: names of the selected fields, in the order of the columns. journal_whole: the journal keeps every page.
    around: entered for each write to stdout.
    """
    leave = Leave(overwrite=config.overwrite, rewrite=journal_whole)
    output = output_named(config.file, crawl=crawl, leave=leave, around=around)
    if config.file.lower().endswith(".csv"):
        return CsvSink(output, fields=fields)
    return JsonlSink(output)
