package rpctls

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
)

// ErrWorn is the error for a connection that has carried as many records as one key may
// protect: it must be replaced.
var ErrWorn = errors.New("rpctls: the connection has carried as many TLS records as its keys may protect")

// A Conn is a TLS connection (net.Conn). One goroutine at a time may read, and one write.
//
// A write that a deadline interrupts may be continued with the bytes that it has not
// accepted; those that it has accepted are sent with the next write.
type Conn struct {
	tls        *tls.Conn // nil: the kernel has the keys
	wire       *recordWire
	kernel     *kernelConn // encrypts the records in place of tls, or nil
	security   *oncrpc.Security
	server     *Server // nil: a client's connection
	countReads bool    // limit also applies to the peer's records
	limit      uint64  // maximum number of records in one direction

	writing sync.Mutex

	abortCause   atomic.Pointer[error] // why this end aborted the connection
	resetOnClose atomic.Bool           // Close resets it without a closure alert
	state        tls.ConnectionState   // from the handshake
}

func newConn(t *tls.Conn, w *recordWire, limit uint64) *Conn {
	c := &Conn{tls: t, wire: w, limit: min(cmp.Or(limit, maxRecords), maxRecords), state: t.ConnectionState()}
	c.security = securityOf(&c.state)
	return c
}

// Security describes how the connection is protected.
func (c *Conn) Security() *oncrpc.Security { return c.security }

// SendsMapped reports whether only the kernel reads written bytes. They may then be in a
// file mapping.
func (c *Conn) SendsMapped() bool { return c.kernel != nil }

// NetConn returns the connection below TLS, for its addresses and its state only.
func (c *Conn) NetConn() net.Conn { return c.wire.Conn }

// Read reads bytes from the peer (net.Conn).
func (c *Conn) Read(p []byte) (n int, err error) {
	switch k := c.kernel; {
	case k == nil && c.countReads && c.wire.in.records.Load() >= c.limit, k != nil && c.countReads && k.in.reached(c.limit):
		return 0, ErrWorn
	case k != nil:
		n, err = k.Read(p)
	default:
		n, err = c.tls.Read(p)
	}
	return n, c.explainError(err)
}

// ReadBuffers reads bytes from the peer into v's slices, one after the other, or only
// into the first. The first must not be empty.
func (c *Conn) ReadBuffers(v [][]byte) (int, error) {
	k := c.kernel
	switch {
	case k == nil:
		return c.Read(v[0])
	case c.countReads && k.in.reached(c.limit):
		return 0, ErrWorn
	}
	n, err := k.ReadBuffers(v)
	return n, c.explainError(err)
}

// Write writes p (net.Conn).
func (c *Conn) Write(p []byte) (int, error) {
	n, err := c.WriteBuffers(&net.Buffers{p})
	return int(n), err
}

// WriteBuffers writes v's bytes, in records that are as full as possible, and removes
// them from v. If a deadline interrupts it, v has the rest.
func (c *Conn) WriteBuffers(v *net.Buffers) (n int64, err error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	if k := c.kernel; k != nil {
		if k.out.reached(c.limit) {
			return 0, ErrWorn
		}
		n, err = k.WriteBuffers(v)
		return n, c.explainError(err)
	}
	if c.wire.out.records.Load() >= c.limit {
		return 0, ErrWorn
	}
	record := c.wire.holdRecords(totalLength(*v))
	for len(*v) > 0 && err == nil {
		if err = c.wire.ensureSpace(record); err == nil {
			var m int
			m, err = c.writeRecord(*v, record)
			n += int64(m)
			dropBytes(v, m)
		}
	}
	if ended := c.wire.writeHeld(); err == nil {
		err = ended
	}
	return n, c.explainError(err)
}

// writeRecord writes a record with at most most bytes, which the wire holds back. It uses
// the start of the first slice if that fills the record or is the last, and otherwise a
// copy of several.
func (c *Conn) writeRecord(v net.Buffers, most int) (n int, err error) {
	p := v[0][:min(len(v[0]), most)]
	if len(v) > 1 && len(p) < most {
		scratch := buf.Default.Get(most)
		defer scratch.Release()
		for _, one := range v {
			if n += copy(scratch.B[n:most], one); n == most {
				break
			}
		}
		p = scratch.B[:n]
	}
	if len(p) > 0 {
		_, err = c.tls.Write(p)
	}
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

func totalLength(v net.Buffers) (n int) {
	for _, p := range v {
		n += len(p)
	}
	return n
}

// dropBytes removes the first n bytes of v, and the empty slices after them.
func dropBytes(v *net.Buffers, n int) {
	for len(*v) > 0 {
		if first := len((*v)[0]); first > n {
			(*v)[0] = (*v)[0][n:]
			return
		} else {
			n -= first
		}
		(*v)[0] = nil
		*v = (*v)[1:]
	}
}

// explainError explains a connection error.
func (c *Conn) explainError(err error) error {
	if err == nil {
		return nil
	}
	if cut := c.abortCause.Load(); cut != nil {
		return *cut
	}
	if alert, ok := remoteAlert(err); ok {
		return alertError(alert, err, c.server != nil)
	}
	return err
}

// abort closes the connection without a closure alert.
func (c *Conn) abort(cause error) {
	c.abortCause.CompareAndSwap(nil, &cause)
	c.wire.Conn.Close()
}

// CloseWrite tells the peer that no more bytes follow.
func (c *Conn) CloseWrite() error {
	if c.kernel != nil {
		return c.kernel.closeWrite()
	}
	err := c.tls.CloseWrite()
	if half, ok := c.wire.Conn.(interface{ CloseWrite() error }); ok {
		return errors.Join(err, half.CloseWrite())
	}
	return err
}

// SetLinger sets the TCP connection's linger time. With 0, Close sends no closure alert.
func (c *Conn) SetLinger(seconds int) error {
	c.resetOnClose.Store(seconds == 0)
	if below, ok := c.wire.Conn.(interface{ SetLinger(int) error }); ok {
		return below.SetLinger(seconds)
	}
	return nil
}

// Close closes TLS, and then the connection (RFC 9289, Section 5.1.1).
func (c *Conn) Close() error {
	if c.server != nil {
		c.server.removeConn(c)
	}
	if c.resetOnClose.Load() {
		return c.wire.Close()
	}
	if c.kernel != nil {
		return c.kernel.sendAlertAndClose()
	}
	_ = c.wire.SetWriteDeadline(time.Now().Add(closeTimeout)) // a reply to a peer's KeyUpdate may be pending in TLS, and delay the alert
	err := c.tls.Close()
	if _, closing := errors.AsType[net.Error](err); closing || errors.Is(err, net.ErrClosed) {
		return nil // the peer may no longer read the alert
	}
	return err
}

// LocalAddr returns the underlying connection's address (net.Conn). The following methods
// forward likewise.
func (c *Conn) LocalAddr() net.Addr                { return c.wire.Conn.LocalAddr() }
func (c *Conn) RemoteAddr() net.Addr               { return c.wire.Conn.RemoteAddr() }
func (c *Conn) SetDeadline(t time.Time) error      { return c.wire.Conn.SetDeadline(t) }
func (c *Conn) SetReadDeadline(t time.Time) error  { return c.wire.Conn.SetReadDeadline(t) }
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.wire.Conn.SetWriteDeadline(t) }

// String returns the peer's address.
func (c *Conn) String() string { return fmt.Sprintf("TLS with %s", c.RemoteAddr()) }
