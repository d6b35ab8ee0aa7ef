//go:build !race

package redisstore

// oracleSteps of an ordinary run.
const oracleSteps = 50_000
