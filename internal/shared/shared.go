// Package shared keeps the small state that all gateways of one Redis have in
// common beside their counters: blocks, the enforcement mode, totals of usage,
// learned ratios, reservations from outside. It is a set of named maps of short texts, and nothing more:
// what they mean is their users' business, what a request may spend is
// budget's. No proxied request waits for it.
//
// list.go has lists that only grow, in both. memory.go keeps the maps in this process, redis.go in Redis, one hash each;
// both pass the same tests.
package shared

import "errors"

// ErrNotNumber says that a number was to be added to a text that is none.
var ErrNotNumber = errors.New("shared: the field is not a whole number")

// writerMark begins the hidden fields that hold, for each writer of AddOnce,
// the number of its last batch.
const writerMark = "\x00"
