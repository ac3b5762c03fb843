//go:build !race

package bridge

const poolLosses = 0.0
