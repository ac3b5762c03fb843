package bridge

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// TestTurns checks that the client with the fewest calls is first, and that a
// larger grant admits more calls and a smaller grant fewer.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := 4
		q := fairQueue{limit: func() int { return limit }}
		a, b := peerAt("192.0.2.1"), peerAt("192.0.2.2")
		var started []string
		start := func(name string, peer *oncrpc.Peer) {
			go func() {
				assert.NoError(t, q.acquire(t.Context(), peer))
				started = append(started, name) // no other goroutine runs
			}()
			synctest.Wait()
		}
		for _, name := range []string{"a1", "a2", "a3", "a4"} {
			start(name, a)
		}
		assert.Equal(t, []string{"a1", "a2", "a3"}, started, "one slot is kept for others")
		start("b1", b)
		start("b2", b)
		assert.Equal(t, []string{"a1", "a2", "a3", "b1"}, started)
		end := func(peer *oncrpc.Peer, want ...string) {
			t.Helper()
			started = nil
			q.release(peer)
			synctest.Wait()
			assert.Equal(t, want, started)
		}
		end(a, "b2") // a has two, and arrived before
		limit = 2
		end(a)
		limit = 6
		end(b, "a4")
		end(b)
		end(a)
		end(a)
		assert.Empty(t, q.clients)
		assert.Zero(t, q.running)
	})
}

// peerAt returns a connection from an address.
func peerAt(ip string) *oncrpc.Peer {
	return &oncrpc.Peer{Network: "tcp", Addr: netip.AddrPortFrom(netip.MustParseAddr(ip), 700)}
}

// TestTurnsOfParties checks that a client group with many connections gets no more
// than its part, and is served after groups with fewer calls. Its connections share
// that part.
func TestTurnsOfParties(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := fairQueue{limit: func() int { return 64 }}
		var many []*oncrpc.Peer // with a call each
		var mu sync.Mutex
		started := make(map[*oncrpc.Peer]int)
		start := func(peer *oncrpc.Peer) {
			go func() {
				assert.NoError(t, q.acquire(t.Context(), peer))
				mu.Lock()
				started[peer]++
				mu.Unlock()
			}()
			synctest.Wait()
		}
		for range 100 {
			peer := peerAt(fmt.Sprintf("2001:db8::%x", 1+len(many)))
			many = append(many, peer)
			start(peer)
		}
		assert.Equal(t, 56, q.running, "an eighth of the slots is kept for others")
		other := peerAt("2001:db8:0:1::1")
		for range 20 {
			start(other)
		}
		assert.Equal(t, 6, started[other])
		for _, peer := range many[:10] {
			q.release(peer)
			synctest.Wait()
		}
		assert.Equal(t, 14, started[other], "it has fewer than all of the slots")
		for _, peer := range many[10:] {
			q.release(peer)
			synctest.Wait()
		}
		for range 20 {
			q.release(other)
			synctest.Wait()
		}
		assert.Len(t, started, 101)
		assert.Empty(t, q.clients)
		assert.Empty(t, q.groups)
	})
}

// TestTurnGivenUp checks that a caller that stops waiting is removed, even if its
// turn comes at the same moment.
func TestTurnGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := fairQueue{limit: func() int { return 1 }}
		a, b := new(oncrpc.Peer), new(oncrpc.Peer)
		gone := errors.New("gone")
		for _, turnComes := range []bool{false, true} {
			require.NoError(t, q.acquire(t.Context(), a))
			ctx, cancel := context.WithCancelCause(t.Context())
			errs := make(chan error, 1)
			go func() { errs <- q.acquire(ctx, b) }()
			synctest.Wait()
			if turnComes {
				q.mu.Lock() // so that both outcomes are possible
				q.finishLocked(a, q.clients[a])
				cancel(gone)
				q.mu.Unlock()
				if <-errs == nil {
					q.release(b)
				}
			} else {
				cancel(gone)
				assert.Equal(t, gone, <-errs)
				q.release(a)
			}
			assert.Empty(t, q.clients)
			assert.Empty(t, q.groups)
			assert.Empty(t, q.waiting)
			assert.Zero(t, q.running)
		}
	})
}
