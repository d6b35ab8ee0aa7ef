// Package blackbox holds the product's promises as tests of the built binary,
// with a real Redis and a simulated provider: what users would see. Each case
// of how gateways of this kind have failed their users is a test that is named
// after it (A1, C9, …). It has no code of its own.
//
// setup_test.go starts what a case needs, and checks after each that nothing
// is left: no open reservation, no taken slot, and reserved = used + refunded −
// overrun.
package blackbox
