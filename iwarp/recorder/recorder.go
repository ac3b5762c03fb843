// Package recorder keeps the latest traffic of an iWARP connection, and writes
// it as a capture.
//
// The package must not know DDP: an FPDU is a length and bytes.
package recorder

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/pcap"
)

// A Recorder keeps the latest traffic of a connection. Its input is bytes. It
// finds the FPDUs by their lengths alone, so that it also keeps malformed FPDUs.
//
//	Tap ────────────▶ start-up frames, kept for ever
//	Sent, Received ─▶ lane: FPDUs ─▶ ring: pieces of both directions
type Recorder struct {
	ends   [2]netip.AddrPort // by pcap.Side
	own    pcap.Side
	opened time.Time

	mu    sync.Mutex
	lanes [2]lane // by pcap.Side, the sender
	ring  ring
}

// New returns a recorder for a connection between two addresses, with a ring of
// the given size in bytes, or nil if the size is 0. own is this end's side.
func New(between addressed, size int, own pcap.Side) *Recorder {
	if size == 0 {
		return nil
	}
	r := &Recorder{own: own, opened: time.Now()}
	r.ring.limit = max(size, minSize)
	r.ends[own], r.ends[1-own] = endOf(between.LocalAddr(), 1), endOf(between.RemoteAddr(), 2)
	return r
}

type addressed interface {
	LocalAddr() net.Addr
	RemoteAddr() net.Addr
}

// endOf returns an address as a packet holds it. An end that is not on a TCP
// network gets an address within this host.
func endOf(a net.Addr, port uint16) netip.AddrPort {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port)
	}
	ap := t.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap().WithZone(""), ap.Port())
}

// add records the first n bytes of vec, which side from has sent.
func (r *Recorder) add(at time.Time, from pcap.Side, n int, vec [][]byte) {
	if n <= 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	l := &r.lanes[from]
	for _, b := range vec {
		b = b[:min(n, len(b))]
		for n -= len(b); len(b) > 0; {
			k, starts, ends := l.next(b)
			for !r.ring.fits(k) {
				old := r.ring.drop()
				r.lanes[old.from].drop(old)
			}
			r.ring.put(piece{time: r.date(at).UnixNano(), from: from, starts: starts, ends: ends, bytes: k}, b[:k])
			b = b[k:]
		}
	}
}

// date returns the time of at by the clock of the record's start. If the clock
// was set meanwhile, the traffic of the two ends would otherwise change its
// order.
func (r *Recorder) date(at time.Time) time.Time { return r.opened.Add(at.Sub(r.opened)) }

// Received records the first n bytes of vec, which the peer has sent.
func (r *Recorder) Received(at time.Time, n int, vec [][]byte) { r.add(at, 1-r.own, n, vec) }

// Sent records the first n bytes of vec, which this end has sent.
func (r *Recorder) Sent(at time.Time, n int, vec [][]byte) { r.add(at, r.own, n, vec) }

// Tap returns nc with its start-up frames recorded. r may be nil.
func (r *Recorder) Tap(nc net.Conn) net.Conn {
	if r == nil {
		return nc
	}
	return &tapped{nc, r}
}

// A tapped connection records all its traffic as start-up frames.
type tapped struct {
	net.Conn
	r *Recorder
}

func (t *tapped) Read(b []byte) (int, error) {
	n, err := t.Conn.Read(b)
	t.r.startup(1-t.r.own, b[:n])
	return n, err
}

func (t *tapped) Write(b []byte) (int, error) {
	n, err := t.Conn.Write(b)
	t.r.startup(t.r.own, b[:n])
	return n, err
}

// startup records bytes of a start-up frame.
func (r *Recorder) startup(from pcap.Side, data []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := &r.lanes[from]
	l.frame = append(l.frame, data...)
	l.framed = r.date(time.Now())
	if len(l.frame) > offFlags { // the sender of M wants to receive Markers
		r.lanes[1-from].markers = l.frame[offFlags]&flagM != 0
	}
}
