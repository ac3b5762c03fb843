package main

import (
	"os"
	"runtime"
)

// raiseProcessors gives the Go runtime more processors (Ps) than a small host
// has, unless the environment says how many. A goroutine in a system call keeps
// its P, and a mount has several that wait there: for the kernel's requests, for
// the server, and for room. If no P is left, the runtime's monitor, which looks
// every 20 µs, takes one away, and its goroutine must find another afterwards.
func raiseProcessors() {
	if os.Getenv("GOMAXPROCS") == "" && runtime.GOMAXPROCS(0) < minProcessors {
		runtime.GOMAXPROCS(minProcessors)
	}
}
