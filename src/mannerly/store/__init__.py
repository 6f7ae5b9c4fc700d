"""What outlives the process: the state of the crawl, the log of its pages, and the locks that guard both.

Things: `sqlite.SqliteStore` holds hosts, origins, URLs, and pages' digests in one file with one writer;
`journal.FileJournal` holds the pages, append-only, in segments; `bloom.BloomFilter` says "certainly new" without a
read; `lock.StateLock` keeps a second coordinator out, `lock.HostLocks` a second crawl of the same host.

Who writes: the coordinator alone. Readers open the store read-only, and the journal up to a committed position.

Invariants: one settle batch is a journal append, flushed, then one transaction that holds all its state changes and
the journal's end; what the journal has beyond that is cut at the next start. So every admitted URL is settled or
waiting after a kill at any instant, and a page's row exists if and only if its frame was written before. A host's
counters change in the transaction that changes its rows. Nothing here grows in memory with the crawl.

The states of a URL, and who may follow whom, stand in `model.task.TRANSITIONS`; the SQL is made from that table.
"""
