//go:build !race

package nfsclient

const poolLosses = 0.0
