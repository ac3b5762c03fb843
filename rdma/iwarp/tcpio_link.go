package iwarp

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// A link moves bytes between a socket and the network. At most one goroutine
// reads and one writes at a time; the other methods may be called at any time.
type link interface {
	// read reads at least one byte into vec, whose first element must not be
	// empty. If it returns errWouldBlock, await waits until another call is
	// worthwhile. Neither waits longer than the wait budget allows.
	read(vec [][]byte, d *waitBudget) (int, error)
	awaitReady(d *waitBudget) error

	// write writes some bytes from vec. If it would block and wait is false, it
	// returns errWouldBlock.
	write(vec [][]byte, wait bool) (int, error)

	// expire makes every use fail from t on, or from an earlier call's t if
	// that is earlier.
	expire(t time.Time)

	// closeWrite sends a FIN if the link supports this and has not expired.
	closeWrite()

	// close closes the link. The caller must ensure that no read or write is in
	// progress. Without a preceding closeWrite, close resets the connection if
	// the link supports this, so that the peer does not mistake it for an
	// orderly close.
	close()
}

// errWouldBlock reports that the socket is currently not writable, or has no
// data.
var errWouldBlock = errors.New("iwarp: the socket is not ready")

// errCrowded reports that too many other calls wait for data in file mappings.
var errCrowded = errors.New("iwarp: too many sends wait for disks")

// longPast is the argument with which expire takes effect immediately.
var longPast = time.Unix(1, 0)

// A netLink is a link over any net.Conn. It blocks in Read and in Write. It sets a deadline only if
// a wait has lasted too long: reads are as short as TLS records. If the net.Conn can read into
// several slices, and write from them, payload is placed directly.
type netLink struct {
	nc     net.Conn
	stall  time.Duration
	rd, wr stallWatch

	mu          sync.Mutex
	deadline    time.Time // when every use fails; zero: not set
	writeClosed bool      // set by closeWrite
}

// newNetLink returns a link that owns nc.
func newNetLink(nc net.Conn, stall time.Duration) *netLink {
	l := &netLink{nc: nc, stall: stall}
	l.rd.init(func() { l.setDeadline(nc.SetReadDeadline, longPast) })
	l.wr.init(func() { l.setDeadline(nc.SetWriteDeadline, longPast) })
	return l
}

func (l *netLink) read(vec [][]byte, d *waitBudget) (n int, err error) {
	limit, err := d.remaining()
	if err != nil {
		return 0, err
	}
	l.rd.beginWait(limit)
	start := d.beginWait()
	if over, ok := l.nc.(interface {
		ReadBuffers(v [][]byte) (int, error)
	}); ok {
		n, err = over.ReadBuffers(vec)
	} else {
		n, err = l.nc.Read(vec[0])
	}
	d.endWait(start)
	if l.rd.endWait() != nil {
		l.setDeadline(l.nc.SetReadDeadline, time.Time{})
	}
	return n, err
}

func (l *netLink) awaitReady(*waitBudget) error { return nil }

func (l *netLink) write(vec [][]byte, wait bool) (int, error) {
	if !wait {
		return 0, errWouldBlock
	}
	l.wr.beginWait(l.stall)
	n, err := l.writeAll(append(net.Buffers(nil), vec...))
	if l.wr.endWait() != nil {
		l.setDeadline(l.nc.SetWriteDeadline, time.Time{})
	}
	return int(n), err
}

func (l *netLink) writeAll(v net.Buffers) (int64, error) {
	if over, ok := l.nc.(interface {
		WriteBuffers(v *net.Buffers) (int64, error)
	}); ok {
		return over.WriteBuffers(&v) // TLS would send a separate record for each element
	}
	return v.WriteTo(l.nc)
}

// setDeadline bounds the next reads or writes; zero means no bound.
func (l *netLink) setDeadline(set func(time.Time) error, t time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.deadline.IsZero() {
		_ = set(t) // an error is reported by the next use
	}
}

func (l *netLink) expire(t time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.deadline.IsZero() || t.Before(l.deadline) {
		l.deadline = t
		_ = l.nc.SetDeadline(t)
	}
}

func (l *netLink) closeWrite() {
	l.mu.Lock()
	late := !l.deadline.IsZero() && !time.Now().Before(l.deadline)
	l.writeClosed = l.writeClosed || !late
	l.mu.Unlock()
	if late {
		return
	}
	if h, ok := l.nc.(interface{ CloseWrite() error }); ok {
		_ = h.CloseWrite()
		return
	}
	_ = l.nc.Close()
}

func (l *netLink) close() {
	l.rd.stop()
	l.wr.stop()
	l.mu.Lock()
	finished := l.writeClosed
	l.mu.Unlock()
	if h, ok := l.nc.(interface{ SetLinger(int) error }); ok && !finished {
		_ = h.SetLinger(0)
	}
	_ = l.nc.Close()
}

// isTimeout reports whether a deadline has passed.
func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// discard reads until the peer closes its half or the link expires. Otherwise
// closing would send a reset, and the peer would lose data that it has not read
// yet.
func discard(l link, scratch []byte) {
	for {
		_, err := l.read([][]byte{scratch}, new(waitBudget))
		if err == errWouldBlock {
			err = l.awaitReady(new(waitBudget))
		}
		if err != nil {
			return
		}
	}
}
