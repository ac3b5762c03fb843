package rdmatest

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/rdma"
)

// A fakeSink is a Sink with n bytes, until it has lent them.
type fakeSink struct {
	n   int
	mem []byte
}

func (l *fakeSink) Len() int { return l.n }

func (l *fakeSink) Lend() []byte {
	l.mem = make([]byte, l.n)
	return l.mem
}

func TestSink(t *testing.T) {
	inBubble(t, rdma.ConnConfig{}, func(t *testing.T, a, b *Conn, ua, _ *recordingUser) {
		r, err := b.Register([]byte("hello"), rdma.RemoteRead)
		require.NoError(t, err)
		from := rdma.Remote{STag: r.STag(), TO: r.TO()}
		l, none := &fakeSink{n: 4}, new(fakeSink)
		resume := b.Pause()
		require.NoError(t, a.Post(
			rdma.WR{Op: rdma.OpRead, Sink: l, Remote: from, Done: ua},
			rdma.WR{Op: rdma.OpRead, Sink: none, Remote: from, Done: ua},
		))
		synctest.Wait()
		assert.Nil(t, l.mem, "before the bytes arrive")
		resume()
		synctest.Wait()
		assert.Equal(t, "hell", string(l.mem))
		assert.Nil(t, none.mem)
		assert.Len(t, ua.completionIDs(), 2)
		assert.Error(t, a.Post(rdma.WR{Op: rdma.OpRead, Sink: l, Data: [][]byte{nil}}))
		assert.Error(t, a.Post(rdma.WR{Op: rdma.OpSend, Sink: l}))
		assert.Error(t, a.Post(rdma.WR{Op: rdma.OpRead}))
	})
}
