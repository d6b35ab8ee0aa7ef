//go:build race

package telemetry

// nativeFactor is 0 under the race detector: there are no native histograms then.
// The client makes their buckets in a sync.Map, and the detector reports its own
// two writes of a new bucket, which the map orders.
const nativeFactor = 0
