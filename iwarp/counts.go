package iwarp

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/iwarp/rdmap"
)

// received is the Counts of the received data. Only the connection's reader
// adds; other goroutines may read meanwhile, which costs the reader 7 ns for
// each FPDU.
type received struct {
	messages      [rdmap.Opcodes]atomic.Uint64
	fpdus, octets atomic.Uint64
}

func (n *received) add(seg *segment) {
	n.fpdus.Add(1)
	n.octets.Add(uint64(seg.payload()))
	if seg.last {
		n.messages[seg.op].Add(1)
	}
}

func (n *received) read() *Counts {
	c := &Counts{FPDUs: n.fpdus.Load(), Octets: n.octets.Load()}
	for op := range n.messages {
		c.Messages[op] = n.messages[op].Load()
	}
	return c
}

// A connTable holds the running connections, and the counts of the connections
// that have ended.
type connTable struct {
	mu             sync.Mutex
	running        map[*Conn]struct{}
	total          uint64
	sent, received Counts
}

func (t *connTable) enter(c *Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running[c] = struct{}{}
	t.total++
}

// leave removes c, and keeps the counts of c.
func (t *connTable) leave(c *Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.running, c)
	c.addTo(&t.sent, &t.received)
}

func (t *connTable) all() []*Conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Keys(t.running))
}

func (t *connTable) stats() Statistics {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := Statistics{Connections: len(t.running), ConnectionsTotal: t.total, Sent: t.sent, Received: t.received}
	for c := range t.running {
		c.addTo(&s.Sent, &s.Received)
	}
	return s
}

// addTo adds the counts of c.
func (c *Conn) addTo(sent, received *Counts) {
	c.tx.mu.Lock()
	defer c.tx.mu.Unlock()
	sent.sum(&c.tx.counts)
	received.sum(c.rx.counts.read())
}

// A tally counts Terminates.
type tally struct {
	mu sync.Mutex
	n  map[rdmap.Error]uint64
}

func (t *tally) add(cause rdmap.Error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n == nil {
		t.n = make(map[rdmap.Error]uint64)
	}
	t.n[cause]++
}

func (t *tally) read() map[rdmap.Error]uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.n)
}
