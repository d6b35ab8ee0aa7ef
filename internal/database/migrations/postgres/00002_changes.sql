-- +goose Up
-- What operators changed while gateways ran: keys, overrides, credits, and who did what.
-- Rows are only ever added: position counts from 0 without a gap, and entry is JSON.
CREATE TABLE changes (
    position BIGINT NOT NULL PRIMARY KEY,
    entry TEXT NOT NULL
);
