package rpcstats

import (
	"cmp"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// maxClients bounds the clients that are counted individually. Each takes 2.5 KiB.
const maxClients = 256

// useGranularity is the resolution of the time of a client's last call. Within it, calls do not
// write to memory that all of the client's connections share.
const useGranularity = time.Second

// clientTable counts calls by client address. If there are too many clients, it forgets the one
// that has been silent for longest among those of the client group with the most addresses.
type clientTable struct {
	memo oncrpc.Memo[clientUsage] // a connection's client

	mu        sync.Mutex
	byAddr    map[netip.Addr]*clientUsage
	forgotten int
}

// A clientUsage counts the calls from one address.
type clientUsage struct {
	Usage
	addr        netip.Addr
	party       fairshare.Name
	lastUse     atomic.Int64 // time of the last call, since Observer.since
	isForgotten atomic.Bool
}

// ClientStats is a snapshot of a client's counters in an Observer.
type ClientStats struct {
	Addr netip.Addr
	Idle time.Duration // since the last call, with a resolution of 1 s
	UsageStats
}

// clientOf returns the counters for a peer's calls, or nil if the peer is not counted: it is in
// this process, or its address may be forged, and is not a known client's.
func (t *clientTable) clientOf(peer *oncrpc.Peer, now time.Duration) *clientUsage {
	if peer == nil {
		return nil
	}
	c := t.memo.Load(peer)
	if c == nil || c.isForgotten.Load() {
		if c = t.findOrAdd(peer, now); c == nil {
			return nil
		}
	}
	if last := c.lastUse.Load(); int64(now)-last >= int64(useGranularity) {
		c.lastUse.Store(int64(now))
	}
	return c
}

// findOrAdd finds or adds a peer's client, and stores it for the peer.
func (t *clientTable) findOrAdd(peer *oncrpc.Peer, now time.Duration) *clientUsage {
	addr := peer.Addr.Addr().Unmap()
	if !addr.IsValid() {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.byAddr[addr]
	if c == nil {
		if peer.Conn == nil { // a datagram
			return nil
		}
		c = &clientUsage{addr: addr, party: fairshare.PartyOfIP(addr)}
		c.lastUse.Store(int64(now))
		if t.byAddr == nil {
			t.byAddr = make(map[netip.Addr]*clientUsage)
		}
		t.byAddr[addr] = c
		if len(t.byAddr) > maxClients {
			t.forgetOneLocked()
		}
	}
	t.memo.Store(peer, c)
	return c
}

// forgetOneLocked removes a client.
func (t *clientTable) forgetOneLocked() {
	parties := make(map[fairshare.Name]int)
	for _, c := range t.byAddr {
		parties[c.party]++
	}
	var worst *clientUsage
	for _, c := range t.byAddr {
		if worst == nil || cmp.Or(cmp.Compare(parties[c.party], parties[worst.party]), cmp.Compare(worst.lastUse.Load(), c.lastUse.Load())) > 0 {
			worst = c
		}
	}
	delete(t.byAddr, worst.addr)
	worst.isForgotten.Store(true)
	t.forgotten++
}

// Clients returns the clients' counters, those on which the server has spent the most time first,
// and the number of clients that are no longer counted because there were too many.
func (o *Observer) Clients() (all []ClientStats, forgotten int) {
	now := time.Since(o.since)
	t := &o.clients
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.byAddr {
		all = append(all, ClientStats{c.addr, max(now-time.Duration(c.lastUse.Load()), 0), c.Stats()})
	}
	slices.SortFunc(all, func(a, b ClientStats) int {
		return cmp.Or(cmp.Compare(b.busyTime(), a.busyTime()), a.Addr.Compare(b.Addr))
	})
	return all, t.forgotten
}
