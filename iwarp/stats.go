package iwarp

import (
	"errors"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// Statistics is a snapshot of the state and the counts of a device.
type Statistics struct {
	Connections      int    // running now
	ConnectionsTotal uint64 // ever started
	Regions          int    // registered now,
	RegionBytes      uint64 // and their total size in bytes

	Sent, Received Counts // of all connections ever started

	// Terminates by the error that they reported.
	TerminatesSent, TerminatesReceived map[rdmap.Error]uint64
}

// Counts is the traffic of one direction.
type Counts struct {
	Messages [rdmap.Opcodes]uint64 // whole messages, by rdmap.Opcode
	FPDUs    uint64
	Bytes    uint64 // bytes behind the DDP headers: the upper layers' data, and RDMAP's headers
}

// add counts an FPDU.
func (n *Counts) add(op rdmap.Opcode, last bool, size int) {
	n.FPDUs++
	n.Bytes += uint64(size)
	if last {
		n.Messages[op]++
	}
}

// sum adds the counts of m.
func (n *Counts) sum(m *Counts) {
	n.FPDUs += m.FPDUs
	n.Bytes += m.Bytes
	for op, messages := range m.Messages {
		n.Messages[op] += messages
	}
}

// Stats returns the statistics of the device.
func (d *Device) Stats() Statistics {
	s := d.conns.stats()
	for i := range d.shard {
		t := &d.shard[i]
		t.mu.RLock()
		s.Regions += len(t.m)
		s.RegionBytes += t.bytes
		t.mu.RUnlock()
	}
	s.TerminatesSent, s.TerminatesReceived = d.terminates.sent.read(), d.terminates.received.read()
	return s
}

// Counts returns the traffic that c has sent and received.
func (c *Conn) Counts() (sent, received Counts) {
	c.addTo(&sent, &received)
	return sent, received
}

// received is the Counts of the received data. Only the connection's reader
// adds; other goroutines may read meanwhile, which costs the reader 7 ns for
// each FPDU.
type received struct {
	messages     [rdmap.Opcodes]atomic.Uint64
	fpdus, bytes atomic.Uint64
}

func (n *received) add(seg *segment) {
	n.fpdus.Add(1)
	n.bytes.Add(uint64(seg.payload()))
	if seg.last {
		n.messages[seg.op].Add(1)
	}
}

func (n *received) read() *Counts {
	c := &Counts{FPDUs: n.fpdus.Load(), Bytes: n.bytes.Load()}
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

var (
	_ rdma.ByteCounter  = (*Conn)(nil)
	_ rdma.SourceWaiter = (*Conn)(nil)
)

// Traffic returns how many bytes of TCP the peer has sent, and how many it has
// acknowledged (rdma.ByteCounter), as they were known last if the kernel waits
// for a disk.
func (c *Conn) Traffic() (in, out uint64) {
	in, out, _ = c.sock.traffic()
	return in, out
}

// AwaitsSource reports whether the kernel waits for the disk of data to send
// (rdma.SourceWaiter).
func (c *Conn) AwaitsSource() bool {
	if !c.sock.lends.on.Load() {
		return false
	}
	_, _, ok := c.sock.traffic()
	return !ok
}

// errNoRecord reports that Config.Record was 0.
var errNoRecord = errors.New("iwarp: the connection keeps no record of its traffic: Config.Record is 0")

// WriteRecord writes the latest traffic of the connection as a capture in pcap
// form, which Wireshark opens: TCP's opening, the start-up frames, and then as
// many FPDUs as Config.Record has room for. It may be called at any time, also
// from Handler.Closed and after the connection has ended.
//
// The packets are synthesized, with one FPDU in each. FPDUs that the record has
// dropped after the start-up frames leave no hole in the sequence numbers;
// IPv4's Identification counts them. Markers are removed, and the start-up
// frames and the CRCs are adjusted accordingly, since Wireshark 4.0 cannot
// parse a stream with Markers.
func (c *Conn) WriteRecord(w io.Writer) error {
	r := c.sock.record
	if r == nil {
		return errNoRecord
	}
	return r.Write(w)
}
