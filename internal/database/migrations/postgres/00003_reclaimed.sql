-- +goose Up
-- Records of what a crash left behind are few, and each batch looks for them.
CREATE INDEX requests_reclaimed ON requests (id) WHERE outcome = 'reclaimed';
