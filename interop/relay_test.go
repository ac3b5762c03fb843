//go:build interop

package interop

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A rdmaRelay stands between a client and a server of RDMA. It counts connections,
// because a client that loses one, for a Terminate or a protocol error, makes
// another. It can hide from either end that the other supports Send With
// Invalidate, it can cut connections, and it can fall silent.
type rdmaRelay struct {
	t      *testing.T
	addr   string // for the client
	target string // the server's
	hide   hiddenSupport

	conns atomic.Int32
	all   sync.WaitGroup

	silent sync.RWMutex // locked while nothing passes, nor the end of a connection

	mu   sync.Mutex
	open map[*net.TCPConn]bool // to both ends
}

// hiddenSupport names the ends whose support of Send With Invalidate is hidden.
type hiddenSupport struct{ client, server bool }

// newRelay starts a relay that stops when the test ends.
func newRelay(t *testing.T, target string, hide hiddenSupport) *rdmaRelay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &rdmaRelay{t: t, addr: l.Addr().String(), target: target, hide: hide, open: make(map[*net.TCPConn]bool)}
	r.all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r.conns.Add(1)
			r.all.Go(func() { r.relayConn(c.(*net.TCPConn)) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		r.all.Wait()
	})
	return r
}

// relayConn relays one connection until both ends have closed it.
func (r *rdmaRelay) relayConn(client *net.TCPConn) {
	defer r.holdConn(client)()
	c, err := net.Dial("tcp", r.target)
	if !assert.NoError(r.t, err) {
		return
	}
	server := c.(*net.TCPConn)
	defer r.holdConn(server)()
	var both sync.WaitGroup
	both.Go(func() { r.relayDirection(server, client, r.hide.client) })
	both.Go(func() { r.relayDirection(client, server, r.hide.server) })
	both.Wait()
}

// holdConn registers a connection with cut until the function that hold returns
// closes it.
func (r *rdmaRelay) holdConn(c *net.TCPConn) (done func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open[c] = true
	return func() {
		r.mu.Lock()
		delete(r.open, c)
		r.mu.Unlock()
		_ = c.Close()
	}
}

// resetAll resets all connections, so that neither end sees a close by the other.
func (r *rdmaRelay) resetAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.open {
		_ = c.SetLinger(0)
	}
	for c := range r.open {
		_ = c.Close()
	}
}

// silentReader reads from a connection and returns nothing while the relay is silent.
type silentReader struct {
	from   io.Reader
	silent *sync.RWMutex
}

func (a silentReader) Read(p []byte) (int, error) {
	n, err := a.from.Read(p)
	a.silent.RLock()
	defer a.silent.RUnlock()
	return n, err
}

// relayDirection relays one direction: the MPA start-up frame, and then all other bytes.
//
//	key flags revision length | IRD ORD | f6ab0e18 version flags …
//	16  1     1        2      | 2   2   | 4        1       1       bytes
func (r *rdmaRelay) relayDirection(to, from *net.TCPConn, hide bool) {
	const head, length, magic, flags = 20, 18, 24, 29
	frame := make([]byte, head, head+512)
	_, err := io.ReadFull(from, frame)
	if err == nil {
		frame = frame[:head+int(binary.BigEndian.Uint16(frame[length:]))]
		_, err = io.ReadFull(from, frame[head:])
	}
	if err == nil {
		if hide && len(frame) > flags && binary.BigEndian.Uint32(frame[magic:]) == 0xf6ab0e18 {
			frame[flags] &^= 1
		}
		_, err = to.Write(frame)
	}
	if err == nil {
		_, err = io.Copy(to, silentReader{from, &r.silent})
	}
	if err != nil {
		_ = to.Close() // the other end sees an end too
		_ = from.Close()
		return
	}
	_ = to.CloseWrite()
}
