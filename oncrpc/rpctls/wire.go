package rpctls

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// A recordWire is the connection below TLS. It counts the records in both directions, and
// holds records back, so that several are sent in one write. If a deadline interrupts a
// write, the wire keeps the rest: crypto/tls never sees a partial write, after which it
// could write nothing more.
//
//	TLS ─Write▶ held ─flush▶ network
type recordWire struct {
	net.Conn
	server     bool
	in         recordCounter // used by the reader
	tlsStarted bool          // used by the reader: the first byte was TLS's
	exact      bool          // used by the reader: it reads no byte after TLS's current record

	memory *fairshare.Part // for a long held buffer; nil: unbounded

	mu      sync.Mutex
	out     recordCounter
	hold    bool     // flush writes, not Write
	held    *buf.Buf // records not written yet, or nil
	counted bool     // held is long, and counts in memory
	written int      // bytes at the start of held that are written
	err     error    // why the stream is lost
}

// longHeldLen and shortHeldLen are held's sizes in bytes for full records, and for one short
// record.
const (
	longHeldLen  = heldRecords*(maxRecordContent+recordCost) + replySpace
	shortHeldLen = shortRecord + recordCost + replySpace
)

// longCost is the memory that a longHeldLen buffer uses.
var longCost = int64(buf.Size(longHeldLen))

var errClear = &Error{Reason: Injected, Text: "unencrypted bytes arrived where TLS must begin, from the peer or from an attacker on the network"}

// errCut reports that the connection was closed without a TLS closure alert. It must not
// be io.EOF: a forged FIN could otherwise truncate the peer's data (RFC 8446, Section
// 6.1).
var errCut = fmt.Errorf("rpctls: the connection was closed without a TLS closure alert: %w", io.ErrUnexpectedEOF)

var errHeld = errors.New("rpctls: too many bytes are waiting to be sent to the peer")

// Types of TLS records (RFC 8446, Section 5.1).
const (
	typeAlert     = 21
	typeHandshake = 22
)

// Read reads from the network. Unencrypted bytes where TLS must begin get no reply, not
// even an alert (RFC 9289, Section 5.1.1).
func (w *recordWire) Read(p []byte) (int, error) {
	if w.exact {
		p = p[:min(len(p), w.in.bytesLeft())]
	}
	n, err := w.Conn.Read(p)
	if !w.tlsStarted && n > 0 {
		w.tlsStarted = p[0] == typeHandshake || p[0] == typeAlert && !w.server
		if !w.tlsStarted {
			return 0, errClear
		}
	}
	w.in.countRecords(p[:n])
	if err == io.EOF {
		err = errCut // TLS reads nothing after a closure alert
	}
	return n, err
}

// isBetweenRecords reports whether both streams are between two records, and nothing is held.
func (w *recordWire) isBetweenRecords() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.in.isBetweenRecords() && w.out.isBetweenRecords() && w.held == nil && w.err == nil
}

// Write accepts records from TLS. It fails only if the stream is lost.
func (w *recordWire) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return 0, w.err
	}
	w.out.countRecords(p)
	if w.held == nil {
		w.allocateLocked(max(shortHeldLen, len(p)+replySpace)) // for the handshake, or a key update reply
	}
	if len(w.held.B)+len(p) > cap(w.held.B) {
		return 0, errHeld
	}
	w.held.B = append(w.held.B, p...)
	if !w.hold {
		_ = w.flushLocked() // after a deadline the rest is held
	}
	return len(p), w.err
}

// holdRecords holds back the records of the following writes, which have n bytes of data.
// It returns the maximum number of bytes in a record.
func (w *recordWire) holdRecords(n int) (record int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hold = true
	if w.held == nil {
		long := n > shortRecord && (w.memory == nil || w.memory.TryAcquire(longCost))
		if w.counted = long && w.memory != nil; long {
			w.allocateLocked(longHeldLen)
		} else {
			w.allocateLocked(shortHeldLen)
		}
	}
	return min(maxRecordContent, cap(w.held.B)-recordCost-replySpace)
}

// allocateLocked allocates held.
func (w *recordWire) allocateLocked(n int) {
	w.held = buf.Default.Get(n)
	w.held.B = w.held.B[:0:n]
}

// ensureSpace ensures that held has space for a record with n bytes.
func (w *recordWire) ensureSpace(n int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held == nil || len(w.held.B)+n+recordCost+replySpace <= cap(w.held.B) {
		return nil
	}
	return w.flushLocked()
}

// writeHeld writes the records that were held back.
func (w *recordWire) writeHeld() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hold = false
	return w.flushLocked()
}

// flushLocked writes the held records. After a deadline the rest stays held. While
// records are held back, the memory is kept.
func (w *recordWire) flushLocked() error {
	if w.held == nil {
		return w.err
	}
	n, err := w.Conn.Write(w.held.B[w.written:])
	w.written += n
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return err
	case err != nil:
		w.err = err
	case w.hold:
		w.held.B, w.written = w.held.B[:0], 0
		return nil
	}
	w.releaseLocked()
	return err
}

func (w *recordWire) releaseLocked() {
	if w.held != nil {
		w.held.Release()
		w.held, w.written = nil, 0
	}
	if w.counted {
		w.memory.Release(longCost)
		w.counted = false
	}
}

// SetWriteDeadline is called only by crypto/tls, before and after the closure alert. The
// alert has little time, because the network may be down.
func (w *recordWire) SetWriteDeadline(t time.Time) error {
	if soon := time.Now().Add(closeTimeout); t.After(soon) {
		t = soon
	}
	return w.Conn.SetWriteDeadline(t)
}

// Close closes the connection, and waits for a write in progress.
func (w *recordWire) Close() error {
	err := w.Conn.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.releaseLocked()
	if w.err == nil {
		w.err = net.ErrClosed
	}
	return err
}
