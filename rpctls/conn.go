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

	"github.com/nfsrdma/nfsrdma/buf"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// ErrWorn is the error of a connection that has carried as many records as one key
// may protect: another must take its place.
var ErrWorn = errors.New("rpctls: the connection has carried as many TLS records as its keys may protect")

// A Conn is a connection inside of TLS (net.Conn). One goroutine at a time may
// read, and one write.
//
// A write that a deadline interrupts may be continued with the bytes that it has
// not taken; those that it has taken leave with the next write.
type Conn struct {
	tls      *tls.Conn // or nil: the kernel has the keys
	wire     *wire
	kernel   *kernelConn // makes the records in place of tls, or nil
	security *oncrpc.Security
	server   *Server // or nil: of a client
	both     bool    // the peer's records count too
	limit    uint64  // of records in one direction

	writing sync.Mutex

	cut   atomic.Pointer[error] // why this end has cut the connection
	reset atomic.Bool           // Close ends it without a closure alert
	state tls.ConnectionState   // of the handshake
}

func newConn(t *tls.Conn, w *wire, limit uint64) *Conn {
	c := &Conn{tls: t, wire: w, limit: min(cmp.Or(limit, maxRecords), maxRecords), state: t.ConnectionState()}
	c.security = securityOf(&c.state)
	return c
}

// Security describes the protection of the connection.
func (c *Conn) Security() *oncrpc.Security { return c.security }

// SendsMapped reports whether only the kernel looks at bytes that are written. They may
// then be in the mapping of a file.
func (c *Conn) SendsMapped() bool { return c.kernel != nil }

// NetConn returns the connection below TLS, for its addresses and its state only.
func (c *Conn) NetConn() net.Conn { return c.wire.Conn }

// Read reads bytes of the peer (net.Conn).
func (c *Conn) Read(p []byte) (n int, err error) {
	switch k := c.kernel; {
	case k == nil && c.both && c.wire.in.records.Load() >= c.limit, k != nil && c.both && k.in.reached(c.limit):
		return 0, ErrWorn
	case k != nil:
		n, err = k.Read(p)
	default:
		n, err = c.tls.Read(p)
	}
	return n, c.words(err)
}

// ReadBuffers reads bytes of the peer into the slices of v, one after the other, or into
// the first alone. The first must not be empty.
func (c *Conn) ReadBuffers(v [][]byte) (int, error) {
	k := c.kernel
	switch {
	case k == nil:
		return c.Read(v[0])
	case c.both && k.in.reached(c.limit):
		return 0, ErrWorn
	}
	n, err := k.ReadBuffers(v)
	return n, c.words(err)
}

// Write writes p (net.Conn).
func (c *Conn) Write(p []byte) (int, error) {
	n, err := c.WriteBuffers(&net.Buffers{p})
	return int(n), err
}

// WriteBuffers writes the bytes of v, in records that are as full as possible, and
// removes them from v. If a deadline interrupts it, v has the rest.
func (c *Conn) WriteBuffers(v *net.Buffers) (n int64, err error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	if k := c.kernel; k != nil {
		if k.out.reached(c.limit) {
			return 0, ErrWorn
		}
		n, err = k.WriteBuffers(v)
		return n, c.words(err)
	}
	if c.wire.out.records.Load() >= c.limit {
		return 0, ErrWorn
	}
	record := c.wire.begin(lenOf(*v))
	for len(*v) > 0 && err == nil {
		if err = c.wire.room(record); err == nil {
			var m int
			m, err = c.writeRecord(*v, record)
			n += int64(m)
			consume(v, m)
		}
	}
	if ended := c.wire.end(); err == nil {
		err = ended
	}
	return n, c.words(err)
}

// writeRecord makes a record of most bytes at the most, which the wire holds: of the start of
// the first slice if that fills the record, or is the last, and otherwise of a copy of
// several.
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

func lenOf(v net.Buffers) (n int) {
	for _, p := range v {
		n += len(p)
	}
	return n
}

// consume removes the first n bytes of v, and the empty slices behind them.
func consume(v *net.Buffers, n int) {
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

// words explains an error of the connection.
func (c *Conn) words(err error) error {
	if err == nil {
		return nil
	}
	if cut := c.cut.Load(); cut != nil {
		return *cut
	}
	if alert, ok := remoteAlert(err); ok {
		return alertError(alert, err, c.server != nil)
	}
	return err
}

// abort ends the connection without a closure alert.
func (c *Conn) abort(cause error) {
	c.cut.CompareAndSwap(nil, &cause)
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

// SetLinger is that of a net.TCPConn. With 0, Close does not tell the peer of an orderly
// end.
func (c *Conn) SetLinger(seconds int) error {
	c.reset.Store(seconds == 0)
	if below, ok := c.wire.Conn.(interface{ SetLinger(int) error }); ok {
		return below.SetLinger(seconds)
	}
	return nil
}

// Close ends TLS, and then the connection (RFC 9289, Section 5.1.1).
func (c *Conn) Close() error {
	if c.server != nil {
		c.server.forget(c)
	}
	if c.reset.Load() {
		return c.wire.Close()
	}
	if c.kernel != nil {
		return c.kernel.close()
	}
	_ = c.wire.SetWriteDeadline(time.Now().Add(farewell)) // an answer to a peer's KeyUpdate may wait in TLS, and hold up the alert
	err := c.tls.Close()
	if _, closing := errors.AsType[net.Error](err); closing || errors.Is(err, net.ErrClosed) {
		return nil // the alert is for a peer that listens
	}
	return err
}

// LocalAddr is that of the connection below (net.Conn), and so are the others.
func (c *Conn) LocalAddr() net.Addr                { return c.wire.Conn.LocalAddr() }
func (c *Conn) RemoteAddr() net.Addr               { return c.wire.Conn.RemoteAddr() }
func (c *Conn) SetDeadline(t time.Time) error      { return c.wire.Conn.SetDeadline(t) }
func (c *Conn) SetReadDeadline(t time.Time) error  { return c.wire.Conn.SetReadDeadline(t) }
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.wire.Conn.SetWriteDeadline(t) }

// String names the peer.
func (c *Conn) String() string { return fmt.Sprintf("TLS with %s", c.RemoteAddr()) }
