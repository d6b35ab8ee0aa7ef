//go:build !race

package telemetry

// nativeFactor is how much wider each bucket of a native histogram is.
const nativeFactor = 1.1
