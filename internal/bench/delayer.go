package main

import (
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// maxChunks is the maximum number of a stream's chunks in flight.
const maxChunks = 4096

// runDelayer simulates a more distant server: it delays the bytes in both
// directions. Its arguments are the server's address and the delay, half of the
// added round-trip time.
func runDelayer(args []string) error {
	delay, err := time.ParseDuration(args[1])
	if err != nil {
		return err
	}
	// Otherwise the kernel may be late by 50 µs.
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	l, err := listenReno()
	if err != nil {
		return err
	}
	fmt.Printf("ready delayed=%s\n", l.Addr())
	for {
		client, err := l.Accept()
		if err != nil {
			return err
		}
		server, err := dialReno(args[0])
		if err != nil {
			_ = client.Close()
			continue
		}
		go forwardDelayed(client, server, delay)
		go forwardDelayed(server, client, delay)
	}
}

// A delayedChunk is the data from one read.
type delayedChunk struct {
	bytes []byte
	due   time.Time
}

// forwardDelayed forwards bytes after the delay, until one end closes.
func forwardDelayed(to, from net.Conn, delay time.Duration) {
	pieces := make(chan delayedChunk, maxChunks)
	go func() {
		defer close(pieces)
		b := make([]byte, 256<<10)
		for {
			n, err := from.Read(b)
			if err != nil {
				return
			}
			pieces <- delayedChunk{append([]byte(nil), b[:n]...), time.Now().Add(delay)}
		}
	}()
	for p := range pieces {
		sleepUntil(p.due)
		if _, err := to.Write(p.bytes); err != nil {
			_ = from.Close() // the reader then closes pieces
		}
	}
	_ = to.Close()
}

// sleepUntil sleeps in the kernel, because the runtime's timers have
// millisecond precision in an idle process.
func sleepUntil(t time.Time) {
	for d := time.Until(t); d > 0; d = time.Until(t) {
		ts := unix.NsecToTimespec(int64(d))
		_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &ts, nil) // continues after an interruption
	}
}
