package iwarp

import (
	"errors"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
)

// Statistics is a snapshot of a device's state and counts.
type Statistics struct {
	Connections      int    // running now
	ConnectionsTotal uint64 // ever started
	Regions          int    // registered now,
	RegionBytes      uint64 // and their total size

	Sent, Received Counts // over all connections ever started

	// Terminates by reported error.
	TerminatesSent, TerminatesReceived map[rdmap.Error]uint64
}

// Counts is the traffic in one direction.
type Counts struct {
	Messages [rdmap.Opcodes]uint64 // whole messages, by rdmap.Opcode
	FPDUs    uint64
	Bytes    uint64 // bytes after the DDP headers: upper-layer data and RDMAP headers
}

// addFPDU counts an FPDU.
func (n *Counts) addFPDU(op rdmap.Opcode, last bool, size int) {
	n.FPDUs++
	n.Bytes += uint64(size)
	if last {
		n.Messages[op]++
	}
}

// addCounts adds m to n.
func (n *Counts) addCounts(m *Counts) {
	n.FPDUs += m.FPDUs
	n.Bytes += m.Bytes
	for op, messages := range m.Messages {
		n.Messages[op] += messages
	}
}

// Stats returns the device's statistics.
func (d *Device) Stats() Statistics {
	s := d.conns.statistics()
	for i := range d.shards {
		t := &d.shards[i]
		t.mu.RLock()
		s.Regions += len(t.m)
		s.RegionBytes += t.bytes
		t.mu.RUnlock()
	}
	s.TerminatesSent, s.TerminatesReceived = d.terminates.sent.snapshot(), d.terminates.received.snapshot()
	return s
}

// Counts returns the traffic that c has sent and received.
func (c *Conn) Counts() (sent, received Counts) {
	c.addCountsTo(&sent, &received)
	return sent, received
}

// receivedCounts is the Counts for received data. Only the connection's reader
// adds; other goroutines may read concurrently, which costs the reader 7 ns per
// FPDU.
type receivedCounts struct {
	messages     [rdmap.Opcodes]atomic.Uint64
	fpdus, bytes atomic.Uint64
}

func (n *receivedCounts) addSegment(seg *segment) {
	n.fpdus.Add(1)
	n.bytes.Add(uint64(seg.payloadLen()))
	if seg.last {
		n.messages[seg.op].Add(1)
	}
}

func (n *receivedCounts) snapshot() *Counts {
	c := &Counts{FPDUs: n.fpdus.Load(), Bytes: n.bytes.Load()}
	for op := range n.messages {
		c.Messages[op] = n.messages[op].Load()
	}
	return c
}

// A connTable holds the running connections, and the counts from the
// connections that have ended.
type connTable struct {
	mu             sync.Mutex
	running        map[*Conn]struct{}
	total          uint64
	sent, received Counts
}

func (t *connTable) addConn(c *Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running[c] = struct{}{}
	t.total++
}

// removeConn removes c, and keeps c's counts.
func (t *connTable) removeConn(c *Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.running, c)
	c.addCountsTo(&t.sent, &t.received)
}

func (t *connTable) runningConns() []*Conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Keys(t.running))
}

func (t *connTable) statistics() Statistics {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := Statistics{Connections: len(t.running), ConnectionsTotal: t.total, Sent: t.sent, Received: t.received}
	for c := range t.running {
		c.addCountsTo(&s.Sent, &s.Received)
	}
	return s
}

// addCountsTo adds c's counts.
func (c *Conn) addCountsTo(sent, received *Counts) {
	c.tx.mu.Lock()
	defer c.tx.mu.Unlock()
	sent.addCounts(&c.tx.counts)
	received.addCounts(c.rx.counts.snapshot())
}

// A terminateCounts counts Terminates by cause.
type terminateCounts struct {
	mu sync.Mutex
	n  map[rdmap.Error]uint64
}

func (t *terminateCounts) countCause(cause rdmap.Error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n == nil {
		t.n = make(map[rdmap.Error]uint64)
	}
	t.n[cause]++
}

func (t *terminateCounts) snapshot() map[rdmap.Error]uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.n)
}

var (
	_ rdma.ByteCounter  = (*Conn)(nil)
	_ rdma.SourceWaiter = (*Conn)(nil)
	_ rdma.LossDetector = (*Conn)(nil)
)

// Traffic returns the number of TCP bytes that the peer has sent, and the
// number that it has acknowledged (rdma.ByteCounter). While the kernel waits
// for a disk, these are the last known values.
func (c *Conn) Traffic() (in, out uint64) {
	s, _ := c.sock.tcpState()
	return s.In, s.Out
}

// IsLost reports whether the connection has ended, or the peer has probably abandoned it
// (rdma.LossDetector).
func (c *Conn) IsLost() bool {
	if c.hasEnded() {
		return true
	}
	s, _ := c.sock.tcpState()
	return s.Lost
}

// AwaitsSource reports whether the kernel or the writer waits for the disk that holds the data to
// send (rdma.SourceWaiter).
func (c *Conn) AwaitsSource() bool {
	if c.tx.waitsForDisk.Load() {
		return true
	}
	if !c.sock.mappings.sending.Load() {
		return false
	}
	_, ok := c.sock.tcpState()
	return !ok
}

// errNoRecord reports that Config.Record was 0.
var errNoRecord = errors.New("iwarp: the connection keeps no record of its traffic: Config.Record is 0")

// WriteRecord writes the connection's recent traffic as a pcap capture, for
// example for Wireshark: TCP's handshake, the start-up frames, and then as many
// FPDUs as fit Config.Record. It may be called at any time, also from
// Handler.Closed and after the connection has ended.
//
// The packets are synthesized, with one FPDU in each. FPDUs dropped from the
// record after the start-up frames leave no gap in the sequence numbers; IPv4's
// Identification counts them. Markers are removed, and the start-up frames and
// the CRCs are adjusted accordingly, since Wireshark 4.0 cannot parse a stream
// with Markers.
func (c *Conn) WriteRecord(w io.Writer) error {
	r := c.sock.record
	if r == nil {
		return errNoRecord
	}
	return r.Write(w)
}
