package main

import (
	"os"
	"runtime"
)

// raiseProcessors gives the Go runtime more processors (Ps) than a small host has, unless
// GOMAXPROCS is set in the environment. A goroutine in a system call keeps its P, and a mount
// has several that wait there: for the kernel's requests, for the server, and for buffer
// space. If no P is free, the runtime's monitor, which checks every 20 µs, retakes one, and
// its goroutine must find another afterwards.
func raiseProcessors() {
	if os.Getenv("GOMAXPROCS") == "" && runtime.GOMAXPROCS(0) < minProcessors {
		runtime.GOMAXPROCS(minProcessors)
	}
}
