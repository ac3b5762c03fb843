package rpctls

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/internal/fairshare"
)

// A wire is the connection below TLS. It counts the records of both directions,
// and holds records back, so that several leave in one write. A write that a
// deadline interrupts leaves its rest here: crypto/tls never sees a write that
// failed halfway, after which it could write nothing more.
//
//	TLS ─Write▶ held ─flush▶ network
type wire struct {
	net.Conn
	server bool
	in     counter // of the reader
	begun  bool    // of the reader: the first byte was TLS's
	exact  bool    // of the reader: it takes no byte behind the record that TLS reads

	memory *fairshare.Part // for long held, or nil: it is not bounded

	mu      sync.Mutex
	out     counter
	hold    bool     // flush writes, not Write
	held    *buf.Buf // or nil: records that are not written yet
	counted bool     // held is long, and counts in memory
	sent    int      // bytes at the start of held that are written
	over    error    // the stream is lost: why
}

// longRoom and shortRoom are the sizes in bytes of held: for full records, and for one
// short record.
const (
	longRoom  = heldRecords*(recordRoom+recordCost) + answerRoom
	shortRoom = shortRecord + recordCost + answerRoom
)

// longCost is the memory that held of longRoom takes.
var longCost = int64(buf.Size(longRoom))

var errClear = &Error{Reason: Injected, Text: "bytes in clear came where TLS must begin, from the peer or from someone on the way"}

// errCut reports the end of the connection in place of the end of TLS. It must not be
// io.EOF: whoever forges a FIN could end in order what the peer has not ended (RFC 8446,
// Section 6.1).
var errCut = fmt.Errorf("rpctls: the connection ended, but TLS did not: %w", io.ErrUnexpectedEOF)

var errHeld = errors.New("rpctls: too many bytes wait for the peer")

// Types of TLS records (RFC 8446, Section 5.1).
const (
	typeAlert     = 21
	typeHandshake = 22
)

// Read is the network's. Bytes in clear where TLS must begin get no answer, not even an
// alert (RFC 9289, Section 5.1.1).
func (w *wire) Read(p []byte) (int, error) {
	if w.exact {
		p = p[:min(len(p), w.in.left())]
	}
	n, err := w.Conn.Read(p)
	if !w.begun && n > 0 {
		w.begun = p[0] == typeHandshake || p[0] == typeAlert && !w.server
		if !w.begun {
			return 0, errClear
		}
	}
	w.in.pass(p[:n])
	if err == io.EOF {
		err = errCut // TLS reads nothing behind a closure alert
	}
	return n, err
}

// between reports whether both streams are between two records, and nothing is held.
func (w *wire) between() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.in.between() && w.out.between() && w.held == nil && w.over == nil
}

// Write takes records from TLS. It fails only if the stream is lost.
func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over != nil {
		return 0, w.over
	}
	w.out.pass(p)
	if w.held == nil {
		w.takeLocked(max(shortRoom, len(p)+answerRoom)) // of the handshake, or an answer
	}
	if len(w.held.B)+len(p) > cap(w.held.B) {
		return 0, errHeld
	}
	w.held.B = append(w.held.B, p...)
	if !w.hold {
		_ = w.flushLocked() // after a deadline the rest is held
	}
	return len(p), w.over
}

// begin holds the records of the following writes back, which are for n bytes. It
// returns the number of bytes that a record may have.
func (w *wire) begin(n int) (record int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hold = true
	if w.held == nil {
		long := n > shortRecord && (w.memory == nil || w.memory.TryAcquire(longCost))
		if w.counted = long && w.memory != nil; long {
			w.takeLocked(longRoom)
		} else {
			w.takeLocked(shortRoom)
		}
	}
	return min(recordRoom, cap(w.held.B)-recordCost-answerRoom)
}

// takeLocked lends memory for held.
func (w *wire) takeLocked(n int) {
	w.held = buf.Default.Get(n)
	w.held.B = w.held.B[:0:n]
}

// room makes room for a record of n bytes.
func (w *wire) room(n int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held == nil || len(w.held.B)+n+recordCost+answerRoom <= cap(w.held.B) {
		return nil
	}
	return w.flushLocked()
}

// end writes what was held back.
func (w *wire) end() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hold = false
	return w.flushLocked()
}

// flushLocked writes the held records. After a deadline the rest stays held, and while
// they are held back for more, their memory.
func (w *wire) flushLocked() error {
	if w.held == nil {
		return w.over
	}
	n, err := w.Conn.Write(w.held.B[w.sent:])
	w.sent += n
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return err
	case err != nil:
		w.over = err
	case w.hold:
		w.held.B, w.sent = w.held.B[:0], 0
		return nil
	}
	w.dropLocked()
	return err
}

func (w *wire) dropLocked() {
	if w.held != nil {
		w.held.Release()
		w.held, w.sent = nil, 0
	}
	if w.counted {
		w.memory.Release(longCost)
		w.counted = false
	}
}

// SetWriteDeadline is called by crypto/tls alone, before and after the closure
// alert. The alert has little time, for the network may be gone.
func (w *wire) SetWriteDeadline(t time.Time) error {
	if soon := time.Now().Add(farewell); t.After(soon) {
		t = soon
	}
	return w.Conn.SetWriteDeadline(t)
}

// Close ends the connection, and waits for a write under way.
func (w *wire) Close() error {
	err := w.Conn.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dropLocked()
	if w.over == nil {
		w.over = net.ErrClosed
	}
	return err
}
