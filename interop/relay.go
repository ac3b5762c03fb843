//go:build interop

package interop

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// A Relay passes connections on to a server, until Cut resets them all.
type Relay struct {
	Addr string // for clients

	mu    sync.Mutex
	open  map[net.Conn]bool // to both ends
	conns int
}

// A Tap returns observers for a new connection's two directions: the client's bytes, and
// the server's. The relay passes no byte on that an observer does not take.
type Tap func() [2]io.Writer

// NewRelay starts a relay that stops when the test ends. tap may be nil.
func NewRelay(t *testing.T, server string, tap Tap) *Relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &Relay{Addr: l.Addr().String(), open: make(map[net.Conn]bool)}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", server)
			if err != nil {
				client.Close()
				continue
			}
			r.mu.Lock()
			r.open[client], r.open[server] = true, true
			r.conns++
			r.mu.Unlock()
			taps := [2]io.Writer{io.Discard, io.Discard}
			if tap != nil {
				taps = tap()
			}
			for i, ends := range [2][2]net.Conn{{client, server}, {server, client}} {
				all.Go(func() {
					_, _ = io.Copy(ends[1], io.TeeReader(ends[0], taps[i]))
					ends[0].Close()
					ends[1].Close()
					r.mu.Lock()
					defer r.mu.Unlock()
					delete(r.open, ends[1])
				})
			}
		}
	})
	t.Cleanup(func() {
		l.Close()
		r.Cut()
		all.Wait()
	})
	return r
}

// Cut resets all connections, and returns how many have been made.
func (r *Relay) Cut() (made int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.open {
		_ = c.(*net.TCPConn).SetLinger(0)
		c.Close()
	}
	return r.conns
}
