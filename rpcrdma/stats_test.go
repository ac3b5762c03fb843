package rpcrdma

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/cmpriv"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
)

// TestConnections checks that the negotiated values and the calls in flight are
// reported for each connection.
func TestConnections(t *testing.T) {
	g := new(gate)
	withServer(t, &Server{Handler: g, Inline: 8192, Credits: 20, Extensions: new(ExtensionConfig)}, func(t *testing.T, r *testServer) {
		g.open = make(chan struct{})
		began := time.Now()
		r.dialFrom(1)
		time.Sleep(time.Second)
		ours := cmpriv.Message{SendSize: 1024, RecvSize: 1024}.AppendTo(nil)
		q := r.dialWith(new(cmpriv.Extension).AppendTo(ours))
		q.sendCall(newMsg(chunks.Lists{}), rpcCall(testXID, ""))
		synctest.Wait()
		all := r.Connections()
		require.Len(t, all, 2)
		linux, own := all[0], all[1]
		require.NotNil(t, linux.Conn)
		linux.Conn, linux.Inline = nil, 0
		assert.Equal(t, ConnStats{
			Peer: linux.Peer, Since: began, SendInline: 4096, RecvInline: 8192, Invalidate: true, Granted: 20,
		}, linux)
		assert.Equal(t, "198.51.100.1:1000", linux.Peer.String())
		assert.True(t, own.Ours)
		assert.Equal(t, 1024, own.SendInline)
		assert.EqualValues(t, 1, own.Calls)
		assert.Equal(t, 1, own.UnderWay)
		assert.Positive(t, own.Inline)
		assert.Equal(t, own.Inline, r.Stats().Inline.InUse)
		close(g.open)
		q.onlyAnswer()
		assert.Zero(t, r.Connections()[1].UnderWay)
	})
}

// TestServerStats checks that rejected connections and calls are counted by
// kind.
func TestServerStats(t *testing.T) {
	g := new(gate)
	withServer(t, &Server{Handler: g, MaxConns: 2}, func(t *testing.T, r *testServer) {
		g.open = make(chan struct{})
		r.dialFrom(1).sendCall(newMsg(chunks.Lists{}), rpcCall(testXID, ""))
		r.dialFrom(1)
		r.dialFrom(2).sendCall(newMsg(chunks.Lists{}), rpcCall(testXID, ""))
		require.Equal(t, 2, g.servingCount())
		defer close(g.open)
		_, err := r.listen.Dial(t.Context(), rdma.ConnConfig{Handler: &requester{t: t}})
		require.Error(t, err)
		synctest.Wait()
		s := r.Stats()
		assert.Equal(t, uint64(1), s.Replaced)
		assert.Equal(t, uint64(1), s.Refused)
		assert.Equal(t, oncrpc.Memory{Limit: defaultMaxMemory}, s.Memory)
	})
	withServer(t, &Server{Handler: null}, func(t *testing.T, r *testServer) {
		q := r.dialLinux()
		h := newMsg(chunks.Lists{})
		h.Vers = 2
		q.sendRaw(h.AppendTo(nil), rpcCall(testXID, ""))
		q.sendCall(newMsg(chunks.Lists{}), []byte("??"))
		q.sendRaw([]byte("short"))
		synctest.Wait()
		s := r.Stats()
		assert.Equal(t, [3]uint64{1, 1, 1}, [3]uint64{s.ErrVers, s.ErrChunk, s.Dropped})
		assert.Equal(t, oncrpc.Totals{Now: 1, Total: 1}, s.Totals)
	})
}
