//go:build race

package nfs4client

// poolLosses is how many allocations a call may cost: under the race detector,
// sync.Pool drops some of its elements.
const poolLosses = 4.0
