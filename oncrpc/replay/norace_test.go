//go:build !race

package replay

const poolLosses = 0.0
