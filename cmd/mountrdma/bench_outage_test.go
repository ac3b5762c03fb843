package main

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWatchOutages checks the time that a connection is lost.
func TestWatchOutages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var up atomic.Bool
		up.Store(true)
		stop := watchOutages(up.Load)
		time.Sleep(time.Second)
		up.Store(false)
		time.Sleep(5 * time.Second)
		up.Store(true)
		time.Sleep(time.Second)
		assert.InDelta(t, 5, stop().Seconds(), 2*outageInterval.Seconds())
	})
}

// TestBenchText checks the units, and that an outage is mentioned.
func TestBenchText(t *testing.T) {
	r := &benchResult{
		Op: "read", Block: 1 << 20, Depth: 16, Connections: 1, Seconds: 10, MBps: 100.5, IOPS: 96,
		Latency: latencyResult{P50: 312.54, P95: 4100, P99: 5100273.7, Max: 5100273.7}, CPU: 0.25,
	}
	print := func() string {
		var b strings.Builder
		require.NoError(t, r.printText(&b))
		return b.String()
	}
	assert.Equal(t, `read: blocks of 1.0 MiB, 16 calls in flight on each of 1 connections, 10.00 s
100.5 MB/s, 96 calls/s
latency p50 312.5 µs, p95 4.10 ms, p99 5.10 s, max 5.10 s
client CPU 0.25 s
`, print())
	r.Lost = 5.1
	assert.Contains(t, print(), "the connection was lost for 5.10 s: the figures include that time\n")
}
