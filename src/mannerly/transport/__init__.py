"""Transport: tasks out, results back.

`codec` makes bytes of messages, the same for pipes and for a broker: a version byte, a kind byte, MessagePack, every
field bounded. `local` runs worker processes over pipes. A task is carried at most once: if its worker dies, the
transport itself answers `Unknown`. `aside` is the codec of another pipe: between a worker and the process that parses
heavy pages for it.
"""
