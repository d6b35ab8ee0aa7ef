//go:build !race

package gatewaytest

// raceEnabled tells whether the test runs under the race detector.
const raceEnabled = false
