package discover

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/roce"
)

// counterConfig is a server that counts the reads of its counters.
func counterConfig(calls *atomic.Uint64) Config {
	return Config{
		Monitors: func(a netip.Addr) bool { return a != netip.MustParseAddr("192.0.2.66") },
		Count: func(c *Counters) {
			*c = Counters{Sequence: c.Sequence, Uptime: time.Second, Procs: []Proc{{Program: "nfs3", Name: "READ", Calls: calls.Add(1)}}}
		},
	}
}

// TestWatch checks that a monitor sees all updates, in the requested interval,
// for longer than a lease, and that the stream ends with the monitor.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNetwork()
		var calls atomic.Uint64
		s := startServer(t, n.newDevice(t, here), counterConfig(&calls))
		defer s.Close()
		p := openPort(t, n.newDevice(t, there))
		var seen uint32
		began := time.Now()
		const updates = 300
		require.NoError(t, p.Watch(t.Context(), server, 200*time.Millisecond, time.Second, func(c *Counters) bool {
			seen++
			assert.Equal(t, seen, c.Sequence)
			assert.Equal(t, s.Boot(), c.Boot)
			assert.EqualValues(t, seen, c.Procs[0].Calls)
			return seen < updates
		}))
		assert.InDelta(t, (updates-1)*200*time.Millisecond, time.Since(began), float64(time.Second))
		synctest.Wait()
		assert.Zero(t, s.Stats().Monitors, "it has said goodbye")
		assert.EqualValues(t, (updates-1)*200/(leaseTime/renewalsPerLease).Milliseconds()+2, s.Stats().Watched, "once, with each renewal, and goodbye")
	})
}

// TestWatchOnBadNetwork checks that a lost update only loses its own content,
// and that a duplicate is recognized by its number.
func TestWatchOnBadNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNetwork()
		var calls atomic.Uint64
		cfg := counterConfig(&calls)
		count := cfg.Count
		cfg.Count = func(c *Counters) {
			count(c)
			for range 40 { // three packets
				c.Procs = append(c.Procs, c.Procs[0])
			}
		}
		s := startServer(t, n.newDevice(t, here), cfg)
		defer s.Close()
		p := openPort(t, n.newDevice(t, there))
		random := rand.New(rand.NewPCG(1, 1))
		n.mu.Lock()
		n.fate = func() int { return []int{0, 1, 1, 1, 1, 1, 1, 2}[random.IntN(8)] }
		n.mu.Unlock()
		var seen int
		var last uint32
		require.NoError(t, p.Watch(t.Context(), server, MinInterval, 10*time.Second, func(c *Counters) bool {
			assert.Len(t, c.Procs, 41)
			for _, proc := range c.Procs {
				assert.Equal(t, c.Procs[0], proc, "an update is whole")
			}
			assert.GreaterOrEqual(t, c.Sequence, last)
			last = c.Sequence
			seen++
			return seen < 1000
		}))
		assert.Greater(t, last, uint32(1000), "some were lost")
	})
}

// TestWatchLease checks that the lease ends the stream of a lost monitor, and
// that a continuing monitor sees a restarted server.
func TestWatchLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNetwork()
		var calls atomic.Uint64
		dev := n.newDevice(t, here)
		s := startServer(t, dev, counterConfig(&calls))
		far := n.newDevice(t, there)
		p := openPort(t, far)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		boots := make(chan uint64, 1000)
		go func() {
			ended <- p.Watch(ctx, server, time.Second, time.Minute, func(c *Counters) bool { boots <- c.Boot; return true })
		}()
		time.Sleep(61 * time.Second) // a second after the renewal
		s.Close()
		first := s.Boot()
		s = startServer(t, dev, counterConfig(&calls))
		defer s.Close()
		time.Sleep(renewalsPerLease*time.Second + firstUpdate + 200*time.Millisecond) // until the silence is noticed
		for len(boots) > 1 {
			<-boots
		}
		assert.Equal(t, s.Boot(), <-boots)
		assert.NotEqual(t, first, s.Boot())
		assert.Equal(t, 1, s.Stats().Monitors)
		n.mu.Lock()
		n.fate = func() int { return 0 } // it cannot end the stream
		n.mu.Unlock()
		cancel()
		assert.ErrorIs(t, <-ended, context.Canceled)
		time.Sleep(leaseTime + time.Second)
		assert.Zero(t, s.Stats().Monitors)
	})
}

// TestWatchRefused checks that streams are bounded, and that an unauthorized
// monitor gets an error.
func TestWatchRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNetwork()
		var calls atomic.Uint64
		s := startServer(t, n.newDevice(t, here), counterConfig(&calls))
		defer s.Close()
		watch := func(host string) error {
			return openPort(t, n.newDevice(t, host)).Watch(t.Context(), server, time.Second, time.Second, func(*Counters) bool { return false })
		}
		var refused *RefusedError
		require.ErrorAs(t, watch("192.0.2.66"), &refused)
		assert.Equal(t, refusedHost, refused.Reason)
		require.NoError(t, watch(there))
		synctest.Wait() // until the end of that stream

		now := time.Now()
		w := watchBody{QP: 9, PMTU: 1024, Sink: rdma.Remote{STag: 1}, MemoryLen: countersSize, Interval: time.Second}
		for i := range maxMonitors {
			_, why := s.monitors.setStream(sourceAddr(i), w, now)
			require.Zero(t, why)
		}
		_, why := s.monitors.setStream(sourceAddr(maxMonitors), w, now)
		assert.Equal(t, refusedFull, why)
		_, why = s.monitors.setStream(sourceAddr(0), w, now)
		assert.Zero(t, why, "renewed")
		for _, bad := range []watchBody{
			{QP: 9, PMTU: 1024, MemoryLen: countersSize, Interval: MinInterval - 1},
			{QP: 9, PMTU: 1024, MemoryLen: countersSize, Interval: MaxInterval + 1},
			{QP: 9, PMTU: 1024, MemoryLen: countersSize - 1, Interval: time.Second},
		} {
			_, why := s.monitors.setStream(sourceAddr(0), bad, now)
			assert.Equal(t, refusedValue, why)
		}
		w.Interval = 0
		_, why = s.monitors.setStream(sourceAddr(0), w, now)
		assert.Zero(t, why)
		assert.Equal(t, maxMonitors-1, s.monitors.countStreams())
		for _, bad := range []watchBody{{QP: 1 << 24, PMTU: 1024}, {QP: 9, PMTU: 1000}, {QP: 9}} {
			bad.MemoryLen, bad.Interval = countersSize, time.Second
			_, why := s.monitors.setStream(sourceAddr(99), bad, now)
			assert.Equal(t, refusedValue, why)
		}
		_, why = s.monitors.setStream(roce.Source{Addr: netip.MustParseAddr("::1")}, w, now)
		assert.Equal(t, refusedValue, why)
	})
}
