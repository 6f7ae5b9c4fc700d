"""Worker: stateless, runs no received code, is trusted by nobody (invariant I7).

`process` receives tasks, performs several at once and reports; `perform` does one task: vet the address, one request,
decode, extract (`read`). A worker ends at once when its pipe closes.

A page that may take long is read `aside`: by the `parser`, a process of the worker's own that parses one page at a time
under a watch of memory, CPU and time. What it dies of, or takes too much for, costs that page alone.
"""
