-- +goose Up
-- Alerts on their way to one receiver, as JSON, and marks of those that were delivered:
-- "done:" and until when they are remembered, in unix milliseconds.
CREATE TABLE alerts (
    field TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
);
