package main

import (
	"fmt"
	"math"
	"strconv"
)

// formatSize formats a number of bytes, in powers of 1024.
func formatSize(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d bytes", n)
	}
	value, unit := float64(n)/1024, 0
	for value >= 1023.95 && unit < len("KMGTPE")-1 {
		value /= 1024
		unit++
	}
	return fmt.Sprintf("%.1f %ciB", value, "KMGTPE"[unit])
}

// formatColumn formats a number of bytes as ls -h, df -h and du -h do: in powers of 1024,
// rounded up, with one decimal below 10.
func formatColumn(n uint64) string {
	if n < 1<<10 {
		return strconv.FormatUint(n, 10)
	}
	shift, unit := 10, 0
	for n>>shift >= 1024 || n>>shift == 1023 && n&(1<<shift-1) != 0 {
		shift += 10
		unit++
	}
	value := float64(n) / float64(uint64(1)<<shift)
	if tenths := math.Ceil(value * 10); tenths < 100 {
		return fmt.Sprintf("%.1f%c", tenths/10, "KMGTPE"[unit])
	}
	return fmt.Sprintf("%.0f%c", math.Ceil(value), "KMGTPE"[unit])
}
