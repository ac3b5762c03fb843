package rpcbind

import (
	"context"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// serveBoth serves list over TCP and UDP until the test ends.
func serveBoth(t *testing.T, list []Mapping) *Listener {
	t.Helper()
	l, err := Listen("127.0.0.1:0")
	require.NoError(t, err)
	s := NewServer(&Portmapper{Mappings: list}, slog.New(slog.DiscardHandler))
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		assert.NoError(t, s.Shutdown(context.Background()))
		assert.NoError(t, <-served)
		_, err := l.udp.WriteTo(nil, l.udp.LocalAddr())
		assert.ErrorIs(t, err, net.ErrClosed)
	})
	return l
}

// ask sends a datagram and returns the answer, or nil where none comes.
func ask(t *testing.T, c net.Conn, call []byte, within time.Duration) []byte {
	t.Helper()
	_, err := c.Write(call)
	require.NoError(t, err)
	b := make([]byte, 64<<10)
	require.NoError(t, c.SetReadDeadline(time.Now().Add(within)))
	n, err := c.Read(b)
	if err != nil {
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		return nil
	}
	return b[:n]
}

// TestBothTransports: rpcbind's calls, recorded from Linux, have the same answers
// over UDP as over TCP, and what is no call has none.
func TestBothTransports(t *testing.T) {
	l := serveBoth(t, list)
	tcp, err := oncrpc.DialTCP(t.Context(), l.Addr().String(), oncrpc.ClientConfig{})
	require.NoError(t, err)
	defer tcp.Close()
	got, err := Dump(t.Context(), tcp)
	require.NoError(t, err)
	assert.Equal(t, list, got)

	udp, err := net.Dial("udp", l.Addr().String())
	require.NoError(t, err)
	defer udp.Close()
	for _, bad := range [][]byte{nil, {1, 2, 3}, append([]byte{0, 0, 0, 1, 0, 0, 0, 9}, make([]byte, 60000)...), wiretest.Hex(t, "testdata/dump-reply.hex")} {
		_, err := udp.Write(bad)
		require.NoError(t, err)
	}
	for _, name := range []string{"getport", "dump"} { // the first answers to come
		call := wiretest.Hex(t, "testdata/"+name+"-call.hex")
		assert.Equal(t, serve(t, call), ask(t, udp, call, 20*time.Second), name)
	}
}

// TestLongList: a list that no datagram has room for is no answer but an error.
func TestLongList(t *testing.T) {
	l := serveBoth(t, make([]Mapping, maxMappings))
	udp, err := net.Dial("udp", l.Addr().String())
	require.NoError(t, err)
	defer udp.Close()
	call := wiretest.Hex(t, "testdata/dump-call.hex")
	assert.Equal(t, oncrpc.AppendSystemErr(nil, 7), append([]byte{0, 0, 0, 7}, ask(t, udp, call, 20*time.Second)[4:]...))
}

// TestListenTaken: where one of both ports is taken, nothing listens.
func TestListenTaken(t *testing.T) {
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer udp.Close()
	_, err = Listen(udp.LocalAddr().String())
	require.Error(t, err)
	tcp, err := net.Listen("tcp", udp.LocalAddr().String())
	require.NoError(t, err, "it has let go of what it had")
	tcp.Close()
}
