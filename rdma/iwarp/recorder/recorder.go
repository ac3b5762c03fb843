// Package recorder keeps an iWARP connection's recent traffic, and writes it as
// a capture.
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

// A Recorder keeps a connection's recent traffic. Its input is bytes. It finds
// the FPDUs only by their lengths, so that it also keeps malformed FPDUs.
//
//	Tap ────────────▶ start-up frames, always kept
//	Sent, Received ─▶ direction: FPDUs ─▶ ring: pieces from both directions
type Recorder struct {
	addrs     [2]netip.AddrPort // by pcap.Side
	localSide pcap.Side
	opened    time.Time

	mu         sync.Mutex
	directions [2]direction // by pcap.Side, the sender
	ring       ring
}

// New returns a recorder for a connection between two addresses, with a ring of
// size bytes, or nil if size is 0. own is the local side.
func New(between addressed, size int, own pcap.Side) *Recorder {
	if size == 0 {
		return nil
	}
	r := &Recorder{localSide: own, opened: time.Now()}
	r.ring.limit = max(size, minSize)
	r.addrs[own], r.addrs[1-own] = addrPortOf(between.LocalAddr(), 1), addrPortOf(between.RemoteAddr(), 2)
	return r
}

type addressed interface {
	LocalAddr() net.Addr
	RemoteAddr() net.Addr
}

// addrPortOf returns an address in the form used in packets. An end that is not
// on a TCP network gets a loopback address.
func addrPortOf(a net.Addr, port uint16) netip.AddrPort {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port)
	}
	ap := t.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap().WithZone(""), ap.Port())
}

// recordTraffic records the first n bytes in vec, which side from has sent.
func (r *Recorder) recordTraffic(at time.Time, from pcap.Side, n int, vec [][]byte) {
	if n <= 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	l := &r.directions[from]
	for _, b := range vec {
		b = b[:min(n, len(b))]
		for n -= len(b); len(b) > 0; {
			k, starts, ends := l.nextPiece(b)
			for !r.ring.canFit(k) {
				old := r.ring.dropOldest()
				r.directions[old.from].countDropped(old)
			}
			r.ring.putPiece(piece{time: r.adjustTime(at).UnixNano(), from: from, starts: starts, ends: ends, bytes: k}, b[:k])
			b = b[k:]
		}
	}
}

// adjustTime converts at to the clock at the record's start. If the clock has been set since, the
// two ends' traffic would otherwise be reordered.
func (r *Recorder) adjustTime(at time.Time) time.Time { return r.opened.Add(at.Sub(r.opened)) }

// Received records the first n bytes in vec, which the peer has sent.
func (r *Recorder) Received(at time.Time, n int, vec [][]byte) {
	r.recordTraffic(at, 1-r.localSide, n, vec)
}

// Sent records the first n bytes in vec, which this end has sent.
func (r *Recorder) Sent(at time.Time, n int, vec [][]byte) { r.recordTraffic(at, r.localSide, n, vec) }

// Tap returns nc with its start-up frames recorded. r may be nil.
func (r *Recorder) Tap(nc net.Conn) net.Conn {
	if r == nil {
		return nc
	}
	return &tappedConn{nc, r}
}

// A tappedConn records all its traffic as start-up frames.
type tappedConn struct {
	net.Conn
	r *Recorder
}

func (t *tappedConn) Read(b []byte) (int, error) {
	n, err := t.Conn.Read(b)
	t.r.recordFrame(1-t.r.localSide, b[:n])
	return n, err
}

func (t *tappedConn) Write(b []byte) (int, error) {
	n, err := t.Conn.Write(b)
	t.r.recordFrame(t.r.localSide, b[:n])
	return n, err
}

// recordFrame records start-up frame bytes.
func (r *Recorder) recordFrame(from pcap.Side, data []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := &r.directions[from]
	l.frame = append(l.frame, data...)
	l.frameTime = r.adjustTime(time.Now())
	if len(l.frame) > offFlags { // M: the sender requests Markers
		r.directions[1-from].markers = l.frame[offFlags]&flagM != 0
	}
}
