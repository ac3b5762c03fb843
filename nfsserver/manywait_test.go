package nfsserver

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// A pipeListener is a listener with one connection.
type pipeListener struct {
	conns chan net.Conn
	once  sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	if c, ok := <-l.conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.conns) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// A stream is a connection over TCP, from host 198.51.100.1, that sends calls
// without waiting for replies.
type stream struct {
	net.Conn
	g    *grantRig
	sent uint32
	came chan nfs3.Status
}

func (c *stream) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(198, 51, 100, 1), Port: 700}
}

// dialStream serves g over a stream too, until the end of the test.
func dialStream(t *testing.T, g *grantRig) (c *stream, end func()) {
	ours, theirs := net.Pipe()
	l := &pipeListener{conns: make(chan net.Conn, 1)}
	l.conns <- &stream{Conn: theirs}
	s := &oncrpc.Server{Handler: g.kept}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	c = &stream{Conn: ours, g: g, came: make(chan nfs3.Status, 2000)}
	go c.read()
	return c, func() {
		ours.Close()
		require.NoError(t, s.Shutdown(t.Context()))
		require.NoError(t, <-served)
	}
}

// write sends a WRITE.
func (c *stream) write(name string) {
	proc, args := c.g.write(name)
	g := rig{uid: 1000, gid: 1000}
	msg := args.AppendTo(g.header(nfs3.Program, nfs3.Version, proc))
	msg = append(msg, itemOf(args)...)
	c.sent++
	binary.BigEndian.PutUint32(msg, c.sent)
	_, err := c.Conn.Write(append(binary.BigEndian.AppendUint32(nil, 1<<31|uint32(len(msg))), msg...))
	require.NoError(c.g.t, err)
}

func (c *stream) read() {
	var mark [4]byte
	for {
		if _, err := io.ReadFull(c, mark[:]); err != nil {
			return
		}
		b := make([]byte, binary.BigEndian.Uint32(mark[:])&^(1<<31))
		if _, err := io.ReadFull(c, b); err != nil {
			return
		}
		c.came <- nfs3.Status(binary.BigEndian.Uint32(b[acceptedLen:]))
	}
}

// TestManyChangesWait lets 512 changes of two parties wait for one holder,
// over both transports. It checks that a later call is served on a connection full of
// waiting calls, because the holder's own WRITE may come there before the
// holder returns its delegation. All changes must succeed.
func TestManyChangesWait(t *testing.T) {
	withGrants(t, nil, func(t *testing.T, g *grantRig) {
		holder := g.play()
		defer holder.leave()
		holder.hold("f")
		holder.hush()
		tcp, end := dialStream(t, g)
		defer end()
		const half = 256
		for range half {
			tcp.write("f")
		}
		done := make(chan nfs3.Status, half)
		for range half / 128 {
			p := g.play()
			defer p.leave()
			for range 128 {
				go func() { done <- p.call(g.write("f")) }()
			}
		}
		start := time.Now()
		time.Sleep(delegation.Patience / 2) // by then other goroutines read the connections
		assert.Equal(t, []string{"f"}, holder.recalls())
		assert.Empty(t, tcp.came)
		assert.Empty(t, done)
		assert.Zero(t, g.permits())
		assert.Zero(t, permits(t, g.s.realm, &oncrpc.Peer{Addr: netip.MustParseAddrPort("198.51.100.1:700")}, g.s.realm.Set().List()[0]))
		tcp.write("g")
		synctest.Wait()
		require.Len(t, tcp.came, 1)
		assert.Equal(t, nfs3.OK, <-tcp.came)
		holder.answer()
		for range half {
			assert.Equal(t, nfs3.OK, <-tcp.came)
			assert.Equal(t, nfs3.OK, <-done)
		}
		assert.Less(t, time.Since(start), delegation.Patience)
	})
}
