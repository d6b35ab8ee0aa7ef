// Package arch holds the house's rules as tests: imports only go down, big
// dependencies stay in the rooms that need them, and docs/architecture.md lists
// the packages that there are. It has no code of its own.
package arch
