"""Sinks: where pages go.

A sink takes journal frames in order and makes them durable when asked. `coordinator.deliver` drives it: open, then
write any number of times, sync, and only then is the position stored; after a crash it is opened with what was stored.

    jsonl, csv            what a page looks like: a JSON object a line; a row of columns
    output_file           the rules of a file that outlives a run: whose it is, where to go on, its lock
    output_stream         pipes, devices, stdout: nothing can be taken back from them
    choice                which of them `-o` means

Invariants. A file gets each page exactly once: whatever lies past the stored size was written by a run that died, and
is cut off. A file that this crawl did not write is never cut. A stream gets each page at least once.
"""
