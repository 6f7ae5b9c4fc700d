-- The state of one crawl. 64-bit hashes are stored signed. Instants are UTC seconds.

CREATE TABLE crawl (
    id            INTEGER PRIMARY KEY CHECK (id = 1),
    name          TEXT    NOT NULL,
    secret        TEXT    NOT NULL,               -- hexadecimal: it may be wider than 64 bits
    seeds         TEXT    NOT NULL,               -- JSON array
    scope         TEXT    NOT NULL,
    configuration TEXT    NOT NULL,
    generation    INTEGER NOT NULL,
    running       INTEGER NOT NULL,               -- 1 from the start of a run to its clean end
    finished      INTEGER NOT NULL DEFAULT 0,
    segment       INTEGER NOT NULL DEFAULT 1,     -- the journal is valid up to this position
    "offset"      INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE joined (name TEXT PRIMARY KEY) WITHOUT ROWID;  -- what redirected seeds added to the scope

CREATE TABLE tally (                              -- totals, so that no report counts rows
    kind   TEXT    NOT NULL,                      -- total, settled, refused
    name   TEXT    NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (kind, name)
) WITHOUT ROWID;

CREATE TABLE host (
    id              INTEGER PRIMARY KEY,
    name            TEXT    NOT NULL UNIQUE,
    seed            INTEGER NOT NULL DEFAULT 0,
    state           INTEGER NOT NULL DEFAULT 0,   -- READY, PARKED or RETIRED
    reason          TEXT,
    detail          TEXT    NOT NULL DEFAULT '',
    next_ok_at      REAL    NOT NULL DEFAULT 0,
    cause           INTEGER NOT NULL DEFAULT 0,
    delay_s         REAL    NOT NULL DEFAULT 1,
    crawl_delay_s   REAL    NOT NULL DEFAULT 0,
    overloads       INTEGER NOT NULL DEFAULT 0,
    failures        INTEGER NOT NULL DEFAULT 0,
    addresses       TEXT    NOT NULL DEFAULT '[]',
    addresses_until REAL    NOT NULL DEFAULT 0,
    contacted_at    REAL    NOT NULL DEFAULT 0,
    waiting         INTEGER NOT NULL DEFAULT 0,   -- rows of url in WAITING or DELAYED
    stored          INTEGER NOT NULL DEFAULT 0,   -- rows of url
    pages           INTEGER NOT NULL DEFAULT 0,   -- rows of page
    ready_at        REAL    NOT NULL DEFAULT 0    -- next_ok_at, or the first due_at if all that wait are DELAYED
);
CREATE INDEX host_ready ON host (ready_at) WHERE waiting > 0 AND state < 4;
CREATE INDEX host_waiting ON host (waiting) WHERE waiting > 0;

CREATE TABLE origin (
    origin     TEXT PRIMARY KEY,
    access     TEXT,
    fetched_at REAL NOT NULL,
    expires_at REAL NOT NULL,
    record     BLOB NOT NULL                      -- MessagePack of model.origin.OriginRecord
) WITHOUT ROWID;

CREATE TABLE template (
    host_id INTEGER NOT NULL,
    id      INTEGER NOT NULL,                     -- 64-bit hash of the pattern
    pattern TEXT    NOT NULL,
    stored  INTEGER NOT NULL,
    fetched INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (host_id, id)
) WITHOUT ROWID;

-- Rows lie in the order they came, so that admissions append; the order of keys is in the narrow index alone. (Rows in
-- the order of random hashes touch a page for each admission: measured at a third of the rate, and falling.)
CREATE TABLE url (
    seq        INTEGER PRIMARY KEY,               -- age
    host_id    INTEGER NOT NULL,
    hash       INTEGER NOT NULL,
    "key"      TEXT    NOT NULL,
    href       TEXT,                              -- NULL: spelled as the key
    template   INTEGER NOT NULL,
    band       INTEGER NOT NULL,
    depth      INTEGER NOT NULL,
    via_host   INTEGER,
    via_hash   INTEGER,
    chain      TEXT,                              -- JSON array, NULL: not redirected to
    seed       INTEGER NOT NULL DEFAULT 0,
    schemeless INTEGER NOT NULL DEFAULT 0,
    state      INTEGER NOT NULL DEFAULT 0,        -- model.task.UrlState
    due_at     REAL    NOT NULL DEFAULT 0,
    attempts   INTEGER NOT NULL DEFAULT 0,
    uncounted  INTEGER NOT NULL DEFAULT 0,
    respelled  INTEGER NOT NULL DEFAULT 0,
    reason     TEXT,
    detail     TEXT    NOT NULL DEFAULT '',
    UNIQUE (host_id, hash)
);
-- seq comes last in every index; state is named, though it is always 0, so that templates are found in the index alone
CREATE INDEX url_waiting ON url (host_id, band, template, state, depth) WHERE state = 0;
CREATE INDEX url_delayed ON url (host_id, due_at) WHERE state = 1;
CREATE INDEX url_settled ON url (state) WHERE state >= 2;

CREATE TABLE page (
    host_id       INTEGER NOT NULL,
    hash          INTEGER NOT NULL,
    status        INTEGER NOT NULL,
    fetched_at    REAL    NOT NULL,
    body_digest   TEXT    NOT NULL,
    text_digest   TEXT    NOT NULL,
    fingerprint   INTEGER,
    etag          TEXT    NOT NULL,
    last_modified TEXT    NOT NULL,
    segment       INTEGER,                        -- where the frame begins, NULL: no frame
    "offset"      INTEGER,
    PRIMARY KEY (host_id, hash)
) WITHOUT ROWID;
CREATE INDEX page_frame ON page (segment, "offset") WHERE segment IS NOT NULL;

CREATE TABLE refusal (                            -- samples; the number stands in tally
    reason   TEXT NOT NULL,
    url      TEXT NOT NULL,
    evidence TEXT NOT NULL,
    PRIMARY KEY (reason, url)
) WITHOUT ROWID;

CREATE TABLE sink (
    name     TEXT PRIMARY KEY,
    segment  INTEGER NOT NULL,
    "offset" INTEGER NOT NULL,
    state    TEXT NOT NULL
) WITHOUT ROWID;
