package rpcrdma

import (
	"context"
	"encoding/binary"
	"testing"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An autoReplyConn is a connection whose server answers at once.
type autoReplyConn struct {
	rdma.Conn
	h     rdma.Handler
	known fakeRegion
}

// A fakeRegion costs nothing.
type fakeRegion struct{}

func (*fakeRegion) STag() rdma.STag { return 7 }
func (*fakeRegion) TO() uint64      { return 0 }
func (*fakeRegion) Deregister()     {}

func (m *autoReplyConn) Dial(_ context.Context, _ string, cfg rdma.ConnConfig) (rdma.Conn, error) {
	m.h = cfg.Handler
	return m, nil
}

func (m *autoReplyConn) PrivateData() []byte                               { return knfsd }
func (m *autoReplyConn) PostRecv(int) error                                { return nil }
func (m *autoReplyConn) Register([]byte, rdma.Access) (rdma.Region, error) { return &m.known, nil }

func (m *autoReplyConn) Close() error {
	m.h.Closed(nil)
	return nil
}

func (m *autoReplyConn) Post(wrs ...rdma.WR) error {
	wr := &wrs[0]
	b := buf.Default.Get(wire.MinLen + 24)
	xid := binary.BigEndian.Uint32(wr.Data[0])
	h := wire.Header{XID: xid, Vers: wire.Version, Credit: 128}
	appendSuccess(h.AppendTo(b.B[:0]), xid)
	done := wr.Done
	m.h.Receive(rdma.Recv{Buf: b})
	done.Complete(rdma.Completion{}) // later than the reply, which is allowed
	return nil
}

// newRequestRunner returns a function that makes a call in each form that NFS uses.
func newRequestRunner(t testing.TB) (run, stop func()) {
	m := new(autoReplyConn)
	c, err := DialConn(t.Context(), m, "", ClientConnConfig{})
	require.NoError(t, err)
	data := make([]byte, 8192)
	inline := &oncrpc.Exchange{Args: data[:40], MaxResults: 100}
	read := &oncrpc.Exchange{Args: data[:40], MaxResults: 100, Sink: data}
	write := &oncrpc.Exchange{Args: data[:40], MaxResults: 100, Item: data}
	list := &oncrpc.Exchange{Args: data[:40], MaxResults: 8192}
	ctx := context.Background() // a context that never ends
	run = func() {
		for _, x := range []*oncrpc.Exchange{inline, read, write, list} {
			if err := c.Call(ctx, x); err != nil {
				panic(err)
			}
			x.Release()
		}
	}
	return run, func() { require.NoError(t, c.Close()) }
}

// TestRequestAllocs checks that a call costs the requester no allocation.
func TestRequestAllocs(t *testing.T) {
	run, stop := newRequestRunner(t)
	defer stop()
	run()
	assert.Less(t, testing.AllocsPerRun(500, run), 1.0)
}

func BenchmarkRequests(b *testing.B) {
	run, stop := newRequestRunner(b)
	defer stop()
	b.ReportAllocs()
	for b.Loop() {
		run()
	}
}
