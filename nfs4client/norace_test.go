//go:build !race

package nfs4client

const poolLosses = 0.0
