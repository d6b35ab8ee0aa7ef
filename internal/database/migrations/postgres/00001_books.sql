-- +goose Up
-- A row is one request. Times are unix milliseconds in UTC, money is millionths of a
-- dollar, tags, tries and limits are JSON.
CREATE TABLE requests (
    id TEXT NOT NULL DEFAULT '',
    at BIGINT NOT NULL DEFAULT 0,
    team TEXT NOT NULL DEFAULT '',
    key_id TEXT NOT NULL DEFAULT '',
    user_id TEXT NOT NULL DEFAULT '',
    session TEXT NOT NULL DEFAULT '',
    tags TEXT NOT NULL DEFAULT '',
    priority TEXT NOT NULL DEFAULT '',
    model TEXT NOT NULL DEFAULT '',
    provider TEXT NOT NULL DEFAULT '',
    provider_model TEXT NOT NULL DEFAULT '',
    endpoint TEXT NOT NULL DEFAULT '',
    status INTEGER NOT NULL DEFAULT 0,
    outcome TEXT NOT NULL DEFAULT '',
    code TEXT NOT NULL DEFAULT '',
    limited_by TEXT NOT NULL DEFAULT '',
    attempts INTEGER NOT NULL DEFAULT 0,
    stream INTEGER NOT NULL DEFAULT 0,
    estimated INTEGER NOT NULL DEFAULT 0,
    degraded INTEGER NOT NULL DEFAULT 0,
    estimated_input BIGINT NOT NULL DEFAULT 0,
    reserved_output BIGINT NOT NULL DEFAULT 0,
    input BIGINT NOT NULL DEFAULT 0,
    cached_input BIGINT NOT NULL DEFAULT 0,
    cache_write BIGINT NOT NULL DEFAULT 0,
    output BIGINT NOT NULL DEFAULT 0,
    reasoning BIGINT NOT NULL DEFAULT 0,
    reserved BIGINT NOT NULL DEFAULT 0,
    charged BIGINT NOT NULL DEFAULT 0,
    micro_usd BIGINT NOT NULL DEFAULT 0,
    queue_ms DOUBLE PRECISION NOT NULL DEFAULT 0,
    first_token_ms DOUBLE PRECISION NOT NULL DEFAULT 0,
    total_ms DOUBLE PRECISION NOT NULL DEFAULT 0,
    overhead_ms DOUBLE PRECISION NOT NULL DEFAULT 0,
    tries TEXT NOT NULL DEFAULT '',
    limits TEXT NOT NULL DEFAULT ''
) PARTITION BY RANGE (at);
CREATE TABLE requests_default PARTITION OF requests DEFAULT;
CREATE INDEX requests_at ON requests (at);
CREATE INDEX requests_key ON requests (key_id, at);
CREATE INDEX requests_team ON requests (team, at);
CREATE INDEX requests_id ON requests (id);

-- Sums of requests by the time in which they ended: at is where the minute, the quarter of
-- an hour or the UTC day begins. Rows whose facet is '' hold every request once; rows whose
-- facet is 'user', 'tag:NAME' or 'limit' hold the same requests by the user, the tag's value or
-- the limit that refused them.
CREATE TABLE totals_minutes (
    at BIGINT NOT NULL,
    team TEXT NOT NULL DEFAULT '',
    key_id TEXT NOT NULL DEFAULT '',
    model TEXT NOT NULL DEFAULT '',
    provider TEXT NOT NULL DEFAULT '',
    outcome TEXT NOT NULL DEFAULT '',
    facet TEXT NOT NULL DEFAULT '',
    value TEXT NOT NULL DEFAULT '',
    requests BIGINT NOT NULL DEFAULT 0,
    refused BIGINT NOT NULL DEFAULT 0,
    input BIGINT NOT NULL DEFAULT 0,
    cached_input BIGINT NOT NULL DEFAULT 0,
    cache_write BIGINT NOT NULL DEFAULT 0,
    output BIGINT NOT NULL DEFAULT 0,
    reasoning BIGINT NOT NULL DEFAULT 0,
    reserved BIGINT NOT NULL DEFAULT 0,
    charged BIGINT NOT NULL DEFAULT 0,
    micro_usd BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (facet, at, team, key_id, model, provider, outcome, value)
);
CREATE TABLE totals_quarters (
    at BIGINT NOT NULL,
    team TEXT NOT NULL DEFAULT '',
    key_id TEXT NOT NULL DEFAULT '',
    model TEXT NOT NULL DEFAULT '',
    provider TEXT NOT NULL DEFAULT '',
    outcome TEXT NOT NULL DEFAULT '',
    facet TEXT NOT NULL DEFAULT '',
    value TEXT NOT NULL DEFAULT '',
    requests BIGINT NOT NULL DEFAULT 0,
    refused BIGINT NOT NULL DEFAULT 0,
    input BIGINT NOT NULL DEFAULT 0,
    cached_input BIGINT NOT NULL DEFAULT 0,
    cache_write BIGINT NOT NULL DEFAULT 0,
    output BIGINT NOT NULL DEFAULT 0,
    reasoning BIGINT NOT NULL DEFAULT 0,
    reserved BIGINT NOT NULL DEFAULT 0,
    charged BIGINT NOT NULL DEFAULT 0,
    micro_usd BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (facet, at, team, key_id, model, provider, outcome, value)
);
CREATE TABLE totals_days (
    at BIGINT NOT NULL,
    team TEXT NOT NULL DEFAULT '',
    key_id TEXT NOT NULL DEFAULT '',
    model TEXT NOT NULL DEFAULT '',
    provider TEXT NOT NULL DEFAULT '',
    outcome TEXT NOT NULL DEFAULT '',
    facet TEXT NOT NULL DEFAULT '',
    value TEXT NOT NULL DEFAULT '',
    requests BIGINT NOT NULL DEFAULT 0,
    refused BIGINT NOT NULL DEFAULT 0,
    input BIGINT NOT NULL DEFAULT 0,
    cached_input BIGINT NOT NULL DEFAULT 0,
    cache_write BIGINT NOT NULL DEFAULT 0,
    output BIGINT NOT NULL DEFAULT 0,
    reasoning BIGINT NOT NULL DEFAULT 0,
    reserved BIGINT NOT NULL DEFAULT 0,
    charged BIGINT NOT NULL DEFAULT 0,
    micro_usd BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (facet, at, team, key_id, model, provider, outcome, value)
);

-- What happened to limits: see docs/books.md for the kinds.
CREATE TABLE events (
    id TEXT NOT NULL PRIMARY KEY,
    at BIGINT NOT NULL,
    kind TEXT NOT NULL,
    team TEXT NOT NULL DEFAULT '',
    subject TEXT NOT NULL DEFAULT '',
    actor TEXT NOT NULL DEFAULT '',
    count BIGINT NOT NULL DEFAULT 1,
    detail TEXT NOT NULL DEFAULT ''
);
CREATE INDEX events_at ON events (at);

-- Up to which sequence number each gateway process has posted what it recorded.
CREATE TABLE writers (
    instance TEXT NOT NULL PRIMARY KEY,
    posted BIGINT NOT NULL,
    at BIGINT NOT NULL
);

-- For people: the same with times and dollars.
CREATE VIEW requests_view AS
    SELECT to_timestamp(at / 1000.0) AS time, micro_usd / 1000000.0 AS usd, requests.* FROM requests;
CREATE VIEW days_view AS
    SELECT to_timestamp(at / 1000.0) AS time, micro_usd / 1000000.0 AS usd, totals_days.* FROM totals_days;
