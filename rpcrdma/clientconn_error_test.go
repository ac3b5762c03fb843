package rpcrdma

import (
	"context"
	"encoding/binary"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/rdmatest"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// nonReplies returns messages that are no replies to call xid, by reason.
func nonReplies(xid uint32) map[string][]byte {
	header := func(h wire.Header, rest ...byte) []byte {
		h.XID = xid
		if h.Vers == 0 {
			h.Vers = wire.Version
		}
		h.Credit = 99
		return append(h.AppendTo(nil), rest...)
	}
	reply := appendSuccess(nil, xid)
	stranger := binary.BigEndian.AppendUint32(nil, xid+1)
	with := func(l chunks.Lists, p wire.Proc) []byte { return header(wire.Header{Proc: p, Lists: l}, reply...) }
	all := map[string][]byte{
		"R8166-4.5-8 error code 0":                                              header(wire.Header{Proc: wire.Error, Code: 0}),
		"R8166-4.5-8 error code 3":                                              header(wire.Header{Proc: wire.Error, Code: 3}),
		"R8166-4.5-8 ERR_VERS without versions":                                 header(wire.Header{Proc: wire.Error, Code: wire.ErrVers})[:wire.ErrChunkLen],
		"R8166-4.5-8 ERR_VERS cut short":                                        header(wire.Header{Proc: wire.Error, Code: wire.ErrVers})[:wire.ErrVersLen-1],
		"R8166-4.5-8 no error code":                                             header(wire.Header{Proc: wire.Error, Code: wire.ErrChunk})[:wire.FixedLen],
		"R8166-4.5-3 RDMA_ERROR of version 2":                                   header(wire.Header{Vers: 2, Proc: wire.Error, Code: wire.ErrChunk}),
		"R8166-4.5-3 version 2":                                                 header(wire.Header{Vers: 2}, reply...),
		"R8166-4.6.1-3 RDMA_MSGP":                                               header(wire.Header{Proc: wire.MsgP}, make([]byte, 64)...),
		"R8166-4.6.2-2 RDMA_DONE":                                               header(wire.Header{Proc: wire.Done}, make([]byte, 64)...),
		"R8166-4.5-3 R8166-4.2.4-1 procedure 77":                                header(wire.Header{Proc: 77}, make([]byte, 64)...),
		"R8166-4.5-3 a Read list (R8166-4.3.1-1)":                               with(chunks.Lists{Reads: []chunks.ReadSegment{{}}}, wire.Msg),
		"R8166-4.5-3 no chunk for the message (R8166-4.2.4-2)":                  header(wire.Header{Proc: wire.NoMsg}),
		"R8166-4.5-3 no message":                                                header(wire.Header{}),
		"R8166-4.5-3 another XID in the message (R8166-4.2.1-1, R8166-4.2.1-2)": header(wire.Header{}, append(stranger, reply[4:]...)...),
		"of no call": append((&wire.Header{XID: xid + 1, Vers: 1}).AppendTo(nil), append(stranger, reply[4:]...)...),
	}
	sound := with(chunks.Lists{}, wire.Msg)
	for n := range wire.MinLen {
		all["R8166-4.5-1 cut to "+time.Duration(n).String()] = sound[:n]
	}
	var list []byte // without its end
	for range 40 {
		list = append(append(list, 0, 0, 0, 1), make([]byte, 20)...)
	}
	all["R8166-4.5-3 endless Read list"] = append(sound[:wire.FixedLen:wire.FixedLen], list...)
	return all
}

// TestNonsenseDropped checks that messages that are no replies to a call are
// dropped without changing the grant, and that the calls in flight are still
// answered.
func TestNonsenseDropped(t *testing.T) {
	withFakeServer(t, nil, ClientConnConfig{}, func(t *testing.T, c *ClientConn, p *fakeServer) {
		for name := range nonReplies(0) {
			x := replyCall()
			done := startCall(t.Context(), c, x)
			h := p.onlyCall()
			granted := c.Credits()
			p.sendRaw(nonReplies(h.XID)[name])
			require.Empty(t, done, name)
			require.Equal(t, granted, c.Credits(), name)
			p.sendReply(h, wire.Header{Credit: 3})
			require.NoError(t, callError(t, done), name)
			x.Release()
		}
		assert.False(t, p.isLost())
		assert.Empty(t, p.newCalls(), "the server does not answer")
	})
}

// onlyXID returns the XID of the only call with a credit.
func onlyXID(c *ClientConn) uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	for xid := range c.calls {
		return xid
	}
	return 0
}

// TestForesight checks that a server that guesses XIDs and replies before the
// call is sent answers no call.
func TestForesight(t *testing.T) {
	withFakeServer(t, nil, ClientConnConfig{}, func(t *testing.T, c *ClientConn, p *fakeServer) {
		p.requireSuccess(c)
		p.watched.onRegister = func() {
			r := wire.Header{XID: onlyXID(c), Vers: 1, Credit: 1}
			require.NoError(t, c.conn.PostRecv(1))
			require.NoError(t, p.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{r.AppendTo(nil), appendSuccess(nil, r.XID)}}))
			time.Sleep(time.Millisecond) // the reply has arrived
		}
		x := replyCall()
		done := startCall(t.Context(), c, x)
		time.Sleep(time.Second)
		assert.Empty(t, done)
		p.sendReply(p.onlyCall(), wire.Header{})
		require.NoError(t, callError(t, done))
		x.Release()
	})
}

// TestRemoteError checks that an RDMA_ERROR, in each form, ends its call for
// good, and frees the call's credit and memory, and that the connection lives
// (R8166-4.5-7).
func TestRemoteError(t *testing.T) {
	for _, tt := range []struct {
		name string
		wire []byte
		want RemoteError
		text string
	}{
		{"ERR_CHUNK", wiretest.Hex(t, "testdata/err-chunk.hex"), RemoteError{Code: wire.ErrChunk}, "cannot use the call's chunks"},
		{"ERR_VERS", wiretest.Hex(t, "testdata/err-vers.hex"), RemoteError{Code: wire.ErrVers, Low: 1, High: 1}, "versions 1 to 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			withFakeServer(t, nil, ClientConnConfig{}, func(t *testing.T, c *ClientConn, p *fakeServer) {
				p.requireSuccess(c)
				x := replyCall()
				done := startCall(t.Context(), c, x)
				h := p.onlyCall()
				binary.BigEndian.PutUint32(tt.wire, h.XID)
				binary.BigEndian.PutUint32(tt.wire[4:], wire.Version) // the call's: R8166-4.5-5
				p.sendRaw(tt.wire)
				err := callError(t, done)
				var remote *RemoteError
				require.ErrorAs(t, err, &remote)
				assert.Equal(t, tt.want, *remote)
				assert.ErrorContains(t, err, tt.text)
				assert.Empty(t, p.watched.live)
				assert.Empty(t, p.newCalls(), "not again")
				assert.Equal(t, 32, c.Credits())
				p.requireSuccess(c)
			})
		})
	}
}

// TestNoMemory checks that a call whose memory cannot be registered fails at
// once, and leaks nothing (R8166-4.5.4-1).
func TestNoMemory(t *testing.T) {
	for after := range 2 {
		withFakeServer(t, nil, ClientConnConfig{}, func(t *testing.T, c *ClientConn, p *fakeServer) {
			p.requireSuccess(c)
			p.watched.fail = after + 1
			x := replyCall()
			x.Item = rampBytes(5000)
			assert.ErrorIs(t, callError(t, startCall(t.Context(), c, x)), errNoRegister)
			assert.Empty(t, p.newCalls())
			assert.Empty(t, p.watched.live)
			p.requireSuccess(c)
		})
	}
}

// TestClientNudges checks that a server that does not answer the first call is
// nudged: Linux's siw may not have seen the call.
func TestClientNudges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := rdmatest.Listen(t)
		p := &fakeServer{t: t, ready: make(chan struct{})}
		go p.acceptConn(l, nil, 10)
		posted := &postRecorder{memDialer: memDialer{l: l}}
		c, err := DialConn(t.Context(), posted, "", ClientConnConfig{})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		assert.ErrorIs(t, c.Call(ctx, &oncrpc.Exchange{Prog: 1, Vers: 1}), context.DeadlineExceeded)
		require.NoError(t, c.Close())
		posted.mu.Lock()
		defer posted.mu.Unlock()
		assert.Equal(t, []rdma.Op{rdma.OpSend, rdma.OpWrite}, posted.ops)
	})
}

// A postRecorder records a requester's posts.
type postRecorder struct {
	memDialer
	rdma.Conn
	mu  sync.Mutex
	ops []rdma.Op
}

func (r *postRecorder) Dial(ctx context.Context, addr string, c rdma.ConnConfig) (_ rdma.Conn, err error) {
	r.Conn, err = r.memDialer.Dial(ctx, addr, c)
	return r, err
}

func (r *postRecorder) Post(wrs ...rdma.WR) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range wrs {
		r.ops = append(r.ops, w.Op)
	}
	return r.Conn.Post(wrs...)
}

// FuzzRequester answers a call in each form with any message, whose first word
// is optionally replaced by the call's XID. It checks that the requester
// releases its memory, and lives.
func FuzzRequester(f *testing.F) {
	for _, tt := range golden {
		f.Add(wiretest.Hex(f, tt.file), true)
	}
	f.Add(wiretest.Hex(f, "testdata/err-vers.hex"), true)
	for _, m := range nonReplies(7) {
		f.Add(m, false)
	}
	f.Fuzz(func(t *testing.T, message []byte, named bool) {
		if len(message) > 1024 {
			return // the provider rejects it
		}
		for _, x := range []*oncrpc.Exchange{{}, replyCall(), itemCall()} {
			withFakeServer(t, knfsd, ClientConnConfig{Inline: 1024}, func(t *testing.T, c *ClientConn, p *fakeServer) {
				ctx, cancel := context.WithCancel(t.Context())
				done := startCall(ctx, c, x)
				h := p.onlyCall()
				if named && len(message) >= 4 {
					binary.BigEndian.PutUint32(message, h.XID)
				}
				p.sendRaw(message)
				cancel()
				synctest.Wait()
				if err := <-done; err == nil {
					x.Results.Item(1 << 20)
					x.Release()
				} else {
					assert.Nil(t, x.Lent)
				}
				assert.False(t, p.isLost())
				assert.LessOrEqual(t, len(c.calls), 1)
				if c.calls[h.XID] != nil {
					p.sendReply(h, wire.Header{})
				}
				p.requireSuccess(c)
			})
		}
	})
}
