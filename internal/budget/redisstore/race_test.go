//go:build race

package redisstore

// oracleSteps of a run under the race detector, which is five times as slow.
const oracleSteps = 10_000
