package oncrpc

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// newListMux is a program that reserves memory for results in the head, as many
// bytes as its argument. Procedure 1 makes that many, procedure 2 none, and
// procedure 3 10 KiB.
func newListMux() *Mux {
	m := &Mux{Log: discardLogger()}
	m.Register(testProg, 2, handlerFunc(func(_ context.Context, c *Call, r *Reply) error {
		n := int(c.Args.Uint32())
		r.Reserve(n)
		switch c.Proc {
		case 1:
			r.Head = append(r.Head, make([]byte, n)...)
		case 3:
			r.Head = append(r.Head, make([]byte, 10<<10)...)
		}
		return nil
	}))
	return m
}

func callList(t *testing.T, nc net.Conn, proc uint32, n int) {
	t.Helper()
	_, err := nc.Write(newRecord(newCallMessage(1, testProg, 2, proc, 0, byte(n>>16), byte(n>>8), byte(n))))
	require.NoError(t, err)
	synctest.Wait()
}

// TestMemoryOfHeads checks that unread heads stay counted, and that the unused
// part of a reservation is released at once.
func TestMemoryOfHeads(t *testing.T) {
	s := &Server{Handler: newListMux()}
	runInBubble(t, s, func(t *testing.T, l *pipeListener) {
		nc := l.dialPipe()
		defer nc.Close()
		for _, tt := range []struct {
			proc        uint32
			n           int
			least, most int64
		}{
			{1, smallRecord, 0, 0},
			{1, smallRecord + 1, smallRecord + 1, 2 * smallRecord},
			{1, 60 << 10, 60 << 10, 72 << 10},
			{1, 1 << 20, 1 << 20, 1<<20 + 8<<10},
			{3, 1 << 20, 10 << 10, 16 << 10},
			{2, 1 << 20, 0, 0},
		} {
			callList(t, nc, tt.proc, tt.n)
			held := s.Stats().Replies.InUse
			assert.GreaterOrEqual(t, held, tt.least, "%+v", tt)
			assert.LessOrEqual(t, held, tt.most, "%+v", tt)
			readRecord(t, nc)
			synctest.Wait()
			assert.Zero(t, s.Stats().Replies.InUse, "%+v", tt)
		}
	})
}

// TestHeadsWaitForMemory checks that calls wait for the memory of their heads.
// Only as many heads are made as fit into a party's part, until others have
// been read.
func TestHeadsWaitForMemory(t *testing.T) {
	s := &Server{Handler: newListMux()}
	runInBubble(t, s, func(t *testing.T, l *pipeListener) {
		conns := make([]net.Conn, 8)
		const n = 1 << 20
		for i := range conns {
			conns[i] = l.dialFrom(1)
			for range 40 {
				callList(t, conns[i], 1, n)
			}
		}
		held := s.Stats().Replies.InUse
		assert.Greater(t, held, int64(partyMemoryLimit-2*buf.Size(n+rpcmsg.AcceptedLen)))
		assert.LessOrEqual(t, held, int64(partyMemoryLimit))
		var readers sync.WaitGroup
		for _, nc := range conns {
			readers.Go(func() {
				for range 40 {
					readRecord(t, nc)
				}
				nc.Close()
			})
		}
		readers.Wait()
		synctest.Wait()
		assert.Zero(t, s.Stats().Replies.InUse)
	})
}
