//go:build !race

package oncrpc

const poolLosses = 0.0
