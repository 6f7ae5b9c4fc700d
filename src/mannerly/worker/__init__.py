"""Worker: stateless, runs no received code, is trusted by nobody (invariant I7).

`process` receives tasks, performs several at once and reports; `perform` does one task: vet the address, one request,
decode, extract. A worker ends at once when its pipe closes.
"""
