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

// maxClients bounds the clients that are counted individually. Each takes 3 KiB.
const maxClients = 256

// useGranularity is the resolution of the time of a client's last call. Within it, calls do not
// write to memory that all of the client's connections share.
const useGranularity = time.Second

// clientActivity is how long a client counts as active after a call. Active clients do not displace
// each other, and one that is not counted asks for a place again only after this time: otherwise
// each call of too many clients would search the table.
const clientActivity = time.Minute

// clientTable counts calls by client address. If there are too many clients, one of the client
// group with the most addresses makes room: the one that has been silent for longest.
type clientTable struct {
	memo oncrpc.Memo[clientUsage] // a connection's client

	mu        sync.Mutex
	byAddr    map[netip.Addr]*clientUsage
	groups    map[fairshare.Name]*clientGroup
	forgotten int
}

// A clientGroup is the counted clients of one party.
type clientGroup struct {
	name  fairshare.Name
	addrs int
}

// A clientUsage counts the calls from one address.
type clientUsage struct {
	*Usage      // nil: there was no place
	addr        netip.Addr
	group       *clientGroup
	lastUse     atomic.Int64 // time of the last call, since Observer.since
	isForgotten atomic.Bool  // not in the table
}

// ClientStats is a snapshot of a client's counters in an Observer.
type ClientStats struct {
	Addr netip.Addr
	Idle time.Duration // since the last call, with a resolution of 1 s
	UsageStats
}

// clientOf returns the counters for a peer's calls, or nil if the peer is not counted: it is in
// this process, there is no place for it, or its address may be forged and is not a known client's.
func (t *clientTable) clientOf(peer *oncrpc.Peer, now time.Duration) *clientUsage {
	if peer == nil {
		return nil
	}
	c := t.memo.Load(peer)
	if c == nil || c.isForgotten.Load() && !c.isActive(now) {
		c = t.findOrAdd(peer, now, c)
	}
	if c == nil || c.isForgotten.Load() {
		return nil
	}
	if last := c.lastUse.Load(); int64(now)-last >= int64(useGranularity) {
		c.lastUse.Store(int64(now))
	}
	return c
}

// findOrAdd finds or adds a peer's client, and stores it for the peer. before is what was stored.
func (t *clientTable) findOrAdd(peer *oncrpc.Peer, now time.Duration, before *clientUsage) *clientUsage {
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
		c = &clientUsage{addr: addr}
		c.lastUse.Store(int64(now))
		if !t.addLocked(c, now) {
			c.isForgotten.Store(true)
			if before == nil {
				t.forgotten++
			}
		}
	}
	t.memo.Store(peer, c)
	return c
}

// addLocked adds a client. It returns false if there is no place.
func (t *clientTable) addLocked(c *clientUsage, now time.Duration) bool {
	if t.byAddr == nil {
		t.byAddr, t.groups = make(map[netip.Addr]*clientUsage), make(map[fairshare.Name]*clientGroup)
	}
	name := fairshare.PartyOfIP(c.addr)
	g := t.groups[name]
	if g == nil {
		g = &clientGroup{name: name}
	}
	if len(t.byAddr) == maxClients {
		worst := t.findWorstLocked()
		if worst.isActive(now) && worst.group.addrs <= g.addrs+1 {
			return false
		}
		t.forgetLocked(worst)
	}
	c.Usage, c.group = new(Usage), g
	t.byAddr[c.addr], t.groups[name] = c, g
	g.addrs++
	return true
}

// findWorstLocked returns the client that makes room for another.
func (t *clientTable) findWorstLocked() (worst *clientUsage) {
	for _, c := range t.byAddr {
		if worst == nil || cmp.Or(cmp.Compare(c.group.addrs, worst.group.addrs), cmp.Compare(worst.lastUse.Load(), c.lastUse.Load())) > 0 {
			worst = c
		}
	}
	return worst
}

// forgetLocked removes a client.
func (t *clientTable) forgetLocked(c *clientUsage) {
	delete(t.byAddr, c.addr)
	if c.group.addrs--; c.group.addrs == 0 {
		delete(t.groups, c.group.name)
	}
	c.isForgotten.Store(true)
	t.forgotten++
}

func (c *clientUsage) isActive(now time.Duration) bool {
	return now-time.Duration(c.lastUse.Load()) < clientActivity
}

// Clients returns the clients' counters, those on which the server has spent the most time first,
// and how often a client was not counted, or no longer, because there were too many.
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
