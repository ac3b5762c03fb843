//go:build interop

package interop

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
)

const (
	rpingPort  = 7174
	rpingInfo  = 16 // bytes of an advertisement: address 8, rkey 4, size 4
	rpingSize  = 60000
	rpingPings = 5
	rpingLimit = time.Minute
	rpingNudge = 100 * time.Millisecond
)

// TestRping checks the software RNIC against rdma-core's rping over siw, in
// place of rping's server and of its client: Sends, an RDMA Read and an RDMA
// Write in each ping. Afterwards each end makes the other send a Terminate.
func TestRping(t *testing.T) {
	sharedGuest(t)
	t.Run("server", func(t *testing.T) { rpingServer(t, iwarp.Config{CRC: mpa.CRCAuto}, rpingPings) })
	t.Run("client", func(t *testing.T) { rpingClient(t, iwarp.Config{CRC: mpa.CRCOff}, rpingPings) })
	assert.Zero(t, buf.Default.Out(), "unreturned buffers")
}

// An rpingEnd is one end of a ping: the connection and its received messages.
type rpingEnd struct {
	t    *testing.T
	ctx  context.Context
	conn rdma.Conn
	in   *rdma.ReceiveQueue
	done *rdma.CompletionQueue
}

func newRpingEnd(t *testing.T) *rpingEnd {
	ctx, cancel := context.WithTimeoutCause(t.Context(), rpingLimit, fmt.Errorf("not done after %v", rpingLimit))
	t.Cleanup(cancel)
	return &rpingEnd{t: t, ctx: ctx, in: rdma.NewReceiveQueue(), done: rdma.NewCompletionQueue(4)}
}

func (e *rpingEnd) connConfig() rdma.ConnConfig {
	return rdma.ConnConfig{Handler: e.in, RecvSize: rpingInfo, Recvs: 2}
}

// postAndWait posts a work request and waits for it.
func (e *rpingEnd) postAndWait(wr rdma.WR) error {
	e.t.Helper()
	wr.Done = e.done
	require.NoError(e.t, e.conn.Post(wr))
	d, err := e.done.Wait(e.ctx)
	require.NoError(e.t, err)
	return d.Err
}

// awaitAdvertisement waits for a message: rping's advertisement of memory to read or write,
// or the notice of rping's server that its access is complete.
func (e *rpingEnd) awaitAdvertisement() (at rdma.Remote, size int) {
	e.t.Helper()
	m, err := e.in.Wait(e.ctx)
	require.NoError(e.t, err)
	defer m.Buf.Release()
	require.Len(e.t, m.Buf.B, rpingInfo)
	require.NoError(e.t, e.conn.PostRecv(1))
	return rdma.Remote{
		TO:   binary.BigEndian.Uint64(m.Buf.B),
		STag: rdma.STag(binary.BigEndian.Uint32(m.Buf.B[8:])),
	}, int(binary.BigEndian.Uint32(m.Buf.B[12:]))
}

// sendAdvertisement sends an advertisement, or as a server the notice of completion.
func (e *rpingEnd) sendAdvertisement(at rdma.Remote, size int) {
	e.t.Helper()
	b := binary.BigEndian.AppendUint64(nil, at.TO)
	b = binary.BigEndian.AppendUint32(b, uint32(at.STag))
	b = binary.BigEndian.AppendUint32(b, uint32(size))
	require.NoError(e.t, e.postAndWait(rdma.WR{Op: rdma.OpSend, Data: [][]byte{b}}))
}

// releaseMessage releases our first message if siw, as responder, has left it unread: it
// posts an empty RDMA Write a little later.
func (e *rpingEnd) releaseMessage() {
	nudged := rdma.NewCompletionQueue(1)
	timer := time.AfterFunc(rpingNudge, func() {
		// An error means that the connection has ended.
		_ = e.conn.Post(rdma.WR{Op: rdma.OpWrite, Done: nudged})
	})
	e.t.Cleanup(func() { timer.Stop() })
}

// awaitFault waits until a Terminate ends the connection.
func (e *rpingEnd) awaitFault() *iwarp.Fault {
	e.t.Helper()
	_, err := e.in.Wait(e.ctx)
	var f *iwarp.Fault
	require.ErrorAs(e.t, err, &f)
	e.t.Logf("%v", f)
	return f
}

// recordFailure returns cfg with a record of the traffic. If the test fails, the returned
// function writes the record of a connection as a capture, for instance with the FPDU
// whose CRC is wrong.
func recordFailure(t *testing.T, cfg iwarp.Config) (iwarp.Config, func(conn rdma.Conn)) {
	cfg.Record = 1 << 20
	return cfg, func(conn rdma.Conn) {
		if !t.Failed() {
			return
		}
		f, err := os.CreateTemp("", "rping-*.pcap")
		if err == nil {
			err = errors.Join(conn.(*iwarp.Conn).WriteRecord(f), f.Close())
			t.Logf("the traffic: %s (%v)", f.Name(), err)
		}
	}
}

// rpingServer reads the memory that rping's client advertises, and writes the
// data back. It returns the negotiated parameters.
func rpingServer(t *testing.T, cfg iwarp.Config, pings int) (seen mpa.Params) {
	cfg, record := recordFailure(t, cfg)
	l, err := iwarp.Open(cfg).Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	client, err := sharedGuest(t).Open(t.Context(), fmt.Sprintf("rping -c -a 10.0.2.2 -p %d -C %d -S %d -V -v", port, pings+1, rpingSize))
	require.NoError(t, err)
	defer client.Close()

	e := newRpingEnd(t)
	req, err := l.Accept(e.ctx)
	require.NoError(t, err)
	e.conn, err = req.Accept(e.connConfig())
	require.NoError(t, err)
	defer e.conn.Close()
	defer record(e.conn)
	seen = e.conn.(*iwarp.Conn).Params()
	for i := range pings {
		source, size := e.awaitAdvertisement()
		require.Equal(t, rpingSize, size)
		data := make([]byte, size)
		require.NoError(t, e.postAndWait(rdma.WR{Op: rdma.OpRead, Data: [][]byte{data}, Remote: source}))
		require.True(t, bytes.HasPrefix(data, fmt.Appendf(nil, "rdma-ping-%d: ", i)), "%q", data[:32])
		e.sendAdvertisement(rdma.Remote{}, 0)
		sink, size := e.awaitAdvertisement()
		require.Equal(t, rpingSize, size)
		require.NoError(t, e.postAndWait(rdma.WR{Op: rdma.OpWrite, Data: [][]byte{data}, Remote: sink}))
		e.sendAdvertisement(rdma.Remote{}, 0)
	}

	// Memory that a Send has invalidated cannot be read any more.
	source, size := e.awaitAdvertisement()
	require.NoError(t, e.postAndWait(rdma.WR{
		Op: rdma.OpSend, Data: [][]byte{make([]byte, rpingInfo)}, Invalidate: source.STag, WithInvalidate: true,
	}))
	e.awaitAdvertisement()
	err = e.postAndWait(rdma.WR{Op: rdma.OpRead, Data: [][]byte{make([]byte, size)}, Remote: source})
	require.Error(t, err)
	require.True(t, e.awaitFault().Remote, "siw refuses")
	out, err := io.ReadAll(client)
	require.NoError(t, err)
	assert.Contains(t, string(out), fmt.Sprintf("ping data: rdma-ping-%d:", pings-1))
	assert.NotContains(t, string(out), "mismatch")
	return seen
}

// rpingClient advertises memory for rping's server to read and to write. It
// returns the negotiated parameters.
func rpingClient(t *testing.T, cfg iwarp.Config, pings int) (seen mpa.Params) {
	server := rpingListens(t, pings+1)
	e := newRpingEnd(t)
	cfg, record := recordFailure(t, cfg)
	conn, err := iwarp.Open(cfg).Dial(e.ctx, sharedGuest(t).Addr(rpingPort), e.connConfig())
	require.NoError(t, err)
	e.conn, seen = conn, conn.(*iwarp.Conn).Params()
	e.releaseMessage()
	defer e.conn.Close()
	defer record(e.conn)
	source, sink := make([]byte, rpingSize), make([]byte, rpingSize)
	from, err := e.conn.Register(source, rdma.RemoteRead)
	require.NoError(t, err)
	to, err := e.conn.Register(sink, rdma.RemoteWrite)
	require.NoError(t, err)
	for i := range pings {
		fillPing(source, i)
		e.sendAdvertisement(rdma.Remote{STag: from.STag(), TO: from.TO()}, rpingSize)
		e.awaitAdvertisement()
		e.sendAdvertisement(rdma.Remote{STag: to.STag(), TO: to.TO()}, rpingSize)
		e.awaitAdvertisement()
		require.True(t, bytes.Equal(source, sink), "ping %d came back with other bytes", i)
	}

	// siw's RDMA Read of memory without remote-read access is refused here.
	e.sendAdvertisement(rdma.Remote{STag: to.STag(), TO: to.TO()}, rpingSize)
	require.False(t, e.awaitFault().Remote, "we refuse")
	out, err := io.ReadAll(server)
	require.NoError(t, err)
	assert.Contains(t, string(out), "ping data: ")
	return seen
}

// rpingListens starts rping's server, waits until the server listens, and stops
// it when the test ends.
func rpingListens(t *testing.T, pings int) *Session {
	t.Helper()
	server, err := sharedGuest(t).Open(t.Context(), fmt.Sprintf("exec rping -s -a 10.0.2.15 -p %d -C %d -S %d -v", rpingPort, pings, rpingSize))
	require.NoError(t, err)
	t.Cleanup(func() {
		tryInGuest(t, "killall rping 2>/dev/null; :") // rping may have no client
		if t.Failed() {
			out, _ := io.ReadAll(server)
			t.Logf("rping says:\n%s", outputTail(string(out)))
		}
		server.Close()
	})
	mustInGuest(t, fmt.Sprintf("for i in $(seq 200); do ss -ltn | grep -q ':%d ' && exit; usleep 50000; done; exit 1", rpingPort))
	return server
}

// fillPing makes the text of a ping, which ends with a zero byte as rping's does.
func fillPing(b []byte, ping int) {
	n := copy(b, fmt.Sprintf("rdma-ping-%d: ", ping))
	for i := n; i < len(b)-1; i++ {
		b[i] = 'A' + byte(i+ping)%58
	}
	b[len(b)-1] = 0
}
