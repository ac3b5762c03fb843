package main

import "fmt"

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
