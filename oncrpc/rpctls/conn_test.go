package rpctls

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/certtest"
	"github.com/nfsrdma/nfsrdma/internal/keepalive"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// newPair returns the ends of a connection.
func newPair(t testing.TB) (client, server *Conn) {
	root := newAuthority(t, "root")
	r := newRig(t, ServerConfig{Files: filesOf(root.Issue(nil))})
	return r.handshakeOK(newTestClient(t, ClientConfig{Files: Files{CA: certtest.Bundle(root)}}))
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	rand.Read(b)
	return b
}

// TestWriteBuffers checks that slices of any lengths arrive, in as few records as can
// be (R9289-5.1.1-5): neither kind of record respects the other.
func TestWriteBuffers(t *testing.T) {
	client, server := newPair(t)
	for _, lengths := range [][]int{
		{1},
		{0, 0, 1, 0},
		{4, 120},
		{4, 120, 1 << 20},
		{4, 120, 1 << 20, 2},
		{maxRecordContent},
		{maxRecordContent + 1},
		{maxRecordContent, 1},
		{1, maxRecordContent},
		{4, 100, 3000, 4, 100, 3000, 4, 100, 20000},
		{0},
		{},
	} {
		var want []byte
		var v net.Buffers
		for _, n := range lengths {
			p := randomBytes(n)
			v, want = append(v, p), append(want, p...)
		}
		got := make(chan []byte, 1)
		go func() {
			b := make([]byte, len(want))
			_, _ = io.ReadFull(server, b)
			got <- b
		}()
		before := client.wire.out.records.Load()
		n, err := client.WriteBuffers(&v)
		require.NoError(t, err)
		assert.EqualValues(t, len(want), n)
		assert.Empty(t, v)
		assert.True(t, bytes.Equal(want, <-got), lengths)
		records := client.wire.out.records.Load() - before
		least := uint64(len(want)+maxRecordContent-1) / maxRecordContent
		assert.LessOrEqual(t, records, least+2, lengths) // a slice that fills records is not copied into those before
	}
}

// TestWritesTogether checks that the records of a write leave in few writes.
func TestWritesTogether(t *testing.T) {
	client, server := newPair(t)
	counted := &countedConn{Conn: client.wire.Conn}
	client.wire.Conn = counted
	go func() { _, _ = io.Copy(io.Discard, server) }()
	_, err := client.WriteBuffers(&net.Buffers{randomBytes(100), randomBytes(1 << 20)})
	require.NoError(t, err)
	assert.LessOrEqual(t, counted.writes, 66/heldRecords+1)
}

type countedConn struct {
	net.Conn
	writes int
}

func (c *countedConn) Write(p []byte) (int, error) {
	c.writes++
	return c.Conn.Write(p)
}

// TestInterruptedWrite checks that a write that a deadline interrupts can be continued:
// the peer gets every byte once.
func TestInterruptedWrite(t *testing.T) {
	for _, p := range possibleKernelEnds() {
		t.Run(p.String(), func(t *testing.T) {
			client, server := newPairing(t, p)
			want := randomBytes(8 << 20) // more than sockets hold
			v := net.Buffers{want[:100], want[100:]}
			require.NoError(t, client.SetWriteDeadline(time.Now().Add(50*time.Millisecond)))
			var taken int64
			n, err := client.WriteBuffers(&v)
			taken += n
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			require.NoError(t, client.SetWriteDeadline(time.Unix(1, 0)))
			n, err = client.WriteBuffers(&v)
			taken += n
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			rest := 0
			for _, p := range v {
				rest += len(p)
			}
			assert.EqualValues(t, len(want), taken+int64(rest))

			require.NoError(t, client.SetWriteDeadline(time.Time{}))
			var got []byte
			var reading sync.WaitGroup
			reading.Go(func() {
				got = make([]byte, len(want))
				_, _ = io.ReadFull(server, got)
			})
			_, err = client.WriteBuffers(&v)
			require.NoError(t, err)
			reading.Wait()
			assert.True(t, bytes.Equal(want, got))
		})
	}
}

// TestReadDeadline checks that a read may be repeated after a deadline.
func TestReadDeadline(t *testing.T) {
	for _, p := range possibleKernelEnds() {
		t.Run(p.String(), func(t *testing.T) {
			client, server := newPairing(t, p)
			require.NoError(t, server.SetReadDeadline(time.Now().Add(10*time.Millisecond)))
			_, err := server.Read(make([]byte, 1))
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			require.NoError(t, server.SetReadDeadline(time.Time{}))
			go func() { _, _ = client.Write([]byte("x")) }()
			_, err = server.Read(make([]byte, 1))
			assert.NoError(t, err)
		})
	}
}

// TestWorn checks that a connection ends before its keys have protected too much, and
// not in the middle of a write.
func TestWorn(t *testing.T) {
	client, server := newPair(t)
	client.limit = client.wire.out.records.Load() + 2
	go func(server *Conn) { _, _ = io.Copy(io.Discard, server) }(server)
	_, err := client.Write(randomBytes(5 * maxRecordContent))
	require.NoError(t, err)
	_, err = client.Write([]byte("x"))
	assert.ErrorIs(t, err, ErrWorn)

	client, server = newPair(t)
	client.limit = client.wire.in.records.Load() + 1
	_, err = server.Write([]byte("x"))
	require.NoError(t, err)
	_, err = client.Read(make([]byte, 1))
	require.NoError(t, err)
	_, err = client.Read(make([]byte, 1))
	assert.ErrorIs(t, err, ErrWorn)
	server.limit = server.wire.in.records.Load()
	_, err = client.Write([]byte("x"))
	require.NoError(t, err)
	_, err = server.Read(make([]byte, 1))
	assert.NoError(t, err, "the direction of a client is the client's to count")
}

// TestClose checks that the end inside of TLS comes before the end of the connection
// (R9289-5.1.1-7), and that a peer who does not read cannot hold it up.
func TestClose(t *testing.T) {
	for _, p := range possibleKernelEnds() {
		t.Run(p.String(), func(t *testing.T) {
			client, server := newPairing(t, p)
			require.NoError(t, client.Close())
			_, err := server.Read(make([]byte, 1))
			assert.Equal(t, io.EOF, err)
			require.NoError(t, server.Close())

			client, server = newPairing(t, p)
			require.NoError(t, client.CloseWrite())
			_, err = server.Read(make([]byte, 1))
			assert.Equal(t, io.EOF, err)
			_, err = server.Write([]byte("still"))
			require.NoError(t, err)
			_, err = client.Read(make([]byte, 5))
			assert.NoError(t, err)

			client, _ = newPairing(t, p)
			writing := make(chan error, 1)
			go func() {
				_, err := client.Write(make([]byte, 16<<20))
				writing <- err
			}()
			for sent := uint64(0); sent < 3*maxRecordContent; time.Sleep(time.Millisecond) {
				_, sent = keepalive.Traffic(client)
			}
			begin := time.Now()
			_ = client.Close()
			assert.Less(t, time.Since(begin), 5*time.Second)
			assert.Error(t, <-writing)
		})
	}
}

// TestSmallWriteAllocations checks that a reply costs no memory.
func TestSmallWriteAllocations(t *testing.T) {
	client, server := newPair(t)
	go func() { _, _ = io.Copy(io.Discard, server) }()
	head, item := randomBytes(128), randomBytes(4096)
	v := make(net.Buffers, 0, 2)
	allocations := testing.AllocsPerRun(200, func() {
		rest := append(v, head, item)
		if _, err := client.WriteBuffers(&rest); err != nil {
			panic(err)
		}
	})
	assert.LessOrEqual(t, allocations, 1.0) // the slice header that escapes here
}

// TestPeerVanishes checks that an end without the closure alert is an error inside of a
// record.
func TestPeerVanishes(t *testing.T) {
	client, server := newPair(t)
	require.NoError(t, client.wire.Conn.(*net.TCPConn).SetLinger(0))
	client.wire.Conn.Close()
	_, err := server.Read(make([]byte, 1))
	assert.Error(t, err)
	assert.False(t, errors.Is(err, io.EOF))
}

// TestForgedEnd checks that the end of a connection without the closure alert is no orderly
// end, between records and inside of one: everyone on the way can forge it.
func TestForgedEnd(t *testing.T) {
	for i := range 4 {
		inside, p := i&1 == 1, kernelEnds{server: i&2 == 2}
		if !slices.Contains(possibleKernelEnds(), p) {
			continue
		}
		client, server := newPairing(t, p)
		_, err := client.Write([]byte("x"))
		require.NoError(t, err)
		if inside {
			_, err = client.wire.Conn.Write([]byte{23, 3, 3, 0})
			require.NoError(t, err)
		}
		require.NoError(t, client.wire.Conn.(*net.TCPConn).CloseWrite())
		_, err = server.Read(make([]byte, 1))
		require.NoError(t, err)
		for range 2 {
			_, err = server.Read(make([]byte, 1))
			assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
			assert.NotErrorIs(t, err, io.EOF)
		}
	}
}

// TestReset checks that a connection can end without the appearance of an orderly end.
func TestReset(t *testing.T) {
	for _, p := range possibleKernelEnds() {
		t.Run(p.String(), func(t *testing.T) {
			client, server := newPairing(t, p)
			require.NoError(t, client.SetLinger(0))
			require.NoError(t, client.Close())
			_, err := server.Read(make([]byte, 1))
			assert.ErrorIs(t, err, syscall.ECONNRESET)
		})
	}
}
