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

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver/recall"
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

// A tcpClient is a connection over TCP, from host 198.51.100.1, that sends calls
// without waiting for replies.
type tcpClient struct {
	net.Conn
	g    *grantServer
	sent uint32
	came chan nfs3.Status
}

func (c *tcpClient) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(198, 51, 100, 1), Port: 700}
}

// dialTCP serves g over TCP too, until the test ends.
func dialTCP(t *testing.T, g *grantServer) (c *tcpClient, end func()) {
	ours, theirs := net.Pipe()
	l := &pipeListener{conns: make(chan net.Conn, 1)}
	l.conns <- &tcpClient{Conn: theirs}
	s := &oncrpc.Server{Handler: g.kept}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	c = &tcpClient{Conn: ours, g: g, came: make(chan nfs3.Status, 2000)}
	go c.readReply()
	return c, func() {
		ours.Close()
		require.NoError(t, s.Shutdown(t.Context()))
		require.NoError(t, <-served)
	}
}

// sendWrite sends a WRITE.
func (c *tcpClient) sendWrite(name string) {
	proc, args := c.g.writeCall(name)
	g := testServer{uid: 1000, gid: 1000}
	msg := args.AppendTo(g.callHeader(nfs3.Program, nfs3.Version, proc))
	msg = append(msg, dataItem(args)...)
	c.sent++
	binary.BigEndian.PutUint32(msg, c.sent)
	_, err := c.Conn.Write(append(binary.BigEndian.AppendUint32(nil, 1<<31|uint32(len(msg))), msg...))
	require.NoError(c.g.t, err)
}

func (c *tcpClient) readReply() {
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

// TestManyChangesWait lets 512 changes from two client groups wait for one holder, over both
// transports. It checks that a later call is served on a connection full of waiting calls,
// because the holder's own WRITE may come there before the holder returns its delegation. All
// changes must succeed.
func TestManyChangesWait(t *testing.T) {
	runWithGrants(t, nil, func(t *testing.T, g *grantServer) {
		holder := g.connectClient()
		defer holder.disconnect()
		holder.acquireAll("f")
		holder.stopReturning()
		tcp, end := dialTCP(t, g)
		defer end()
		const half = 256
		for range half {
			tcp.sendWrite("f")
		}
		done := make(chan nfs3.Status, half)
		for range half / 128 {
			p := g.connectClient()
			defer p.disconnect()
			for range 128 {
				go func() { done <- p.callNFS(g.writeCall("f")) }()
			}
		}
		start := time.Now()
		time.Sleep(recall.MaxWait / 2) // by then other goroutines read the connections
		assert.Equal(t, []string{"f"}, holder.takeRecalls())
		assert.Empty(t, tcp.came)
		assert.Empty(t, done)
		assert.Zero(t, g.countPermits())
		assert.Zero(t, countPermits(t, g.s.exports, &oncrpc.Peer{Addr: netip.MustParseAddrPort("198.51.100.1:700")}, g.s.exports.Snapshot().List()[0]))
		tcp.sendWrite("g")
		synctest.Wait()
		require.Len(t, tcp.came, 1)
		assert.Equal(t, nfs3.OK, <-tcp.came)
		holder.returnPending()
		for range half {
			assert.Equal(t, nfs3.OK, <-tcp.came)
			assert.Equal(t, nfs3.OK, <-done)
		}
		assert.Less(t, time.Since(start), recall.MaxWait)
	})
}
