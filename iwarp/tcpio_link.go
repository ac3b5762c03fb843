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
	// worthwhile. Neither waits longer than the peer's debt allows.
	read(vec [][]byte, d *debt) (int, error)
	await(d *debt) error

	// write writes some of vec. If nothing can be written at once and wait is
	// false, it returns errWouldBlock.
	write(vec [][]byte, wait bool) (int, error)

	// expire makes every use fail from t on, or from an earlier t of a previous
	// call.
	expire(t time.Time)

	// closeWrite sends a FIN if the link supports this and has not expired.
	closeWrite()

	// close closes the link. The caller must ensure that nothing reads or
	// writes any more. Without closeWrite it resets the connection if the link
	// supports this, so that the peer does not mistake the close for an orderly
	// end.
	close()
}

// errWouldBlock reports that the socket currently accepts nothing, or has
// nothing.
var errWouldBlock = errors.New("iwarp: the socket is not ready")

// longPast is the argument of expire that means at once.
var longPast = time.Unix(1, 0)

// A netLink is a link over any net.Conn. It waits in Read and in Write. It sets a
// deadline only if a wait has lasted too long: reads are as short as the records of
// TLS. If the net.Conn reads into several slices, and writes from them, payload goes to
// its place at once.
type netLink struct {
	nc     net.Conn
	stall  time.Duration
	rd, wr stallWatch

	mu       sync.Mutex
	end      time.Time // when every use fails; zero: not yet set
	finished bool      // by closeWrite
}

// newNetLink takes over nc.
func newNetLink(nc net.Conn, stall time.Duration) *netLink {
	l := &netLink{nc: nc, stall: stall}
	l.rd.init(func() { l.setDeadline(nc.SetReadDeadline, longPast) })
	l.wr.init(func() { l.setDeadline(nc.SetWriteDeadline, longPast) })
	return l
}

func (l *netLink) read(vec [][]byte, d *debt) (n int, err error) {
	limit, err := d.left()
	if err != nil {
		return 0, err
	}
	l.rd.begin(limit)
	start := d.begin()
	if over, ok := l.nc.(interface {
		ReadBuffers(v [][]byte) (int, error)
	}); ok {
		n, err = over.ReadBuffers(vec)
	} else {
		n, err = l.nc.Read(vec[0])
	}
	d.end(start)
	if l.rd.end() != nil {
		l.setDeadline(l.nc.SetReadDeadline, time.Time{})
	}
	return n, err
}

func (l *netLink) await(*debt) error { return nil }

func (l *netLink) write(vec [][]byte, wait bool) (int, error) {
	if !wait {
		return 0, errWouldBlock
	}
	l.wr.begin(l.stall)
	n, err := l.writeAll(append(net.Buffers(nil), vec...))
	if l.wr.end() != nil {
		l.setDeadline(l.nc.SetWriteDeadline, time.Time{})
	}
	return int(n), err
}

func (l *netLink) writeAll(v net.Buffers) (int64, error) {
	if over, ok := l.nc.(interface {
		WriteBuffers(v *net.Buffers) (int64, error)
	}); ok {
		return over.WriteBuffers(&v) // TLS would make a record of each element
	}
	return v.WriteTo(l.nc)
}

// setDeadline bounds the next reads or writes; zero means no bound.
func (l *netLink) setDeadline(set func(time.Time) error, t time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end.IsZero() {
		_ = set(t) // an error shows at the next use
	}
}

func (l *netLink) expire(t time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end.IsZero() || t.Before(l.end) {
		l.end = t
		_ = l.nc.SetDeadline(t)
	}
}

func (l *netLink) closeWrite() {
	l.mu.Lock()
	late := !l.end.IsZero() && !time.Now().Before(l.end)
	l.finished = l.finished || !late
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
	finished := l.finished
	l.mu.Unlock()
	if h, ok := l.nc.(interface{ SetLinger(int) error }); ok && !finished {
		_ = h.SetLinger(0)
	}
	_ = l.nc.Close()
}

// isTimeout reports whether a time limit passed.
func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// discard reads until the peer closes its half or the link expires. Otherwise
// the close would send a reset, and the peer would lose data that it has not
// read yet.
func discard(l link, scratch []byte) {
	for {
		_, err := l.read([][]byte{scratch}, new(debt))
		if err == errWouldBlock {
			err = l.await(new(debt))
		}
		if err != nil {
			return
		}
	}
}
