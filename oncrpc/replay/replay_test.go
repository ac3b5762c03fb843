package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpctest"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const procMake = 5 // in the test program; must not be executed twice

// A countingProgram counts the executions of procMake and returns the count as results. A
// test then knows which execution a reply belongs to.
type countingProgram struct {
	executed uint32
	make     func(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) // after the count is appended; nil: nothing
}

func (m *countingProgram) ServeRPC(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	c.Args.Item(1 << 20)
	if err := c.Args.Done(); err != nil {
		return err
	}
	m.executed++
	r.Head = xdr.AppendUint32(r.Head, m.executed)
	if m.make != nil {
		m.make(ctx, c, r)
	}
	return nil
}

// newReplay returns a cache in front of m.
func newReplay(t testing.TB, m *countingProgram, cfg Config) *Cache {
	var mux oncrpc.Mux
	mux.Register(rpctest.Program, 2, m)
	mux.Register(rpctest.Program, 3, m)
	cfg.Keep = func(p rpcmsg.Procedure, _ []byte) bool { return p.Prog == rpctest.Program && p.Proc >= procMake }
	c := New(&mux, cfg)
	t.Cleanup(c.Close)
	return c
}

// madeBy returns a call of procMake from a client.
func madeBy(client string, xid uint32, data []byte) *oncrpc.Request {
	return &oncrpc.Request{
		Msg:      rpctest.NewCall(xid, rpctest.Program, 2, procMake, xdr.AppendOpaque(nil, data)...),
		Peer:     &oncrpc.Peer{Addr: netip.MustParseAddrPort(client), Local: netip.MustParseAddrPort("192.0.2.9:2049"), Network: "tcp"},
		MaxReply: 1 << 20,
	}
}

// withConn makes a call come on a connection.
func withConn(conn *oncrpc.Connection, req *oncrpc.Request) *oncrpc.Request {
	req.Peer.Conn = conn
	return req
}

// answerOf serves a call and returns the bytes of the reply, or nil if there is
// no answer.
func answerOf(c *Cache, ctx context.Context, req *oncrpc.Request) []byte {
	var rep oncrpc.Reply
	if !c.Serve(ctx, req, &rep) {
		return nil
	}
	defer rep.DropItem()
	return bytesOf(&rep)
}

// makeReply returns the reply to the nth execution of procMake.
func makeReply(xid, n uint32) []byte {
	return xdr.AppendUint32(rpcmsg.AppendAccepted(nil, xid, rpcmsg.Success), n)
}

// TestReplay checks RFC 5531, Section 4: a call with the XID of an executed
// call is not executed again.
func TestReplay(t *testing.T) {
	m := new(countingProgram)
	c := newReplay(t, m, Config{})
	data := make([]byte, 600)
	conn := oncrpc.NewConnection(nil)
	require.Equal(t, makeReply(9, 1), answerOf(c, t.Context(), withConn(conn, madeBy("192.0.2.1:700", 9, data))))

	conn.End()
	retry := madeBy("192.0.2.1:701", 9, data)
	retry.Peer.Network = "rdma"
	assert.Equal(t, makeReply(9, 1), answerOf(c, t.Context(), retry), "from another port, over another transport")
	assert.EqualValues(t, 1, m.executed)

	late := bytes.Clone(data)
	late[len(late)-1] = 1
	assert.Equal(t, makeReply(9, 1), answerOf(c, t.Context(), &oncrpc.Request{Msg: madeBy("192.0.2.1:700", 9, late).Msg, Peer: retry.Peer, MaxReply: 4096}), "bytes behind the first 512 do not count")

	early := bytes.Clone(data)
	early[512-44-1] = 1 // the last byte under the checksum
	version := madeBy("192.0.2.1:700", 9, data)
	version.Msg[19] = 3
	proc := madeBy("192.0.2.1:700", 9, data)
	proc.Msg[23] = procMake + 1
	for i, tt := range []struct {
		what string
		req  *oncrpc.Request
	}{
		{"another client", madeBy("192.0.2.2:700", 9, data)},
		{"another XID", madeBy("192.0.2.1:700", 10, data)},
		{"another version", version},
		{"another procedure", proc},
		{"another length", madeBy("192.0.2.1:700", 9, data[:596])},
		{"other bytes", madeBy("192.0.2.1:700", 9, early)},
	} {
		xid := xdr.NewReader(tt.req.Msg)
		want := makeReply(xid.Uint32(), uint32(2+i))
		assert.Equal(t, want, answerOf(c, t.Context(), tt.req), tt.what)
		assert.Equal(t, want, answerOf(c, t.Context(), tt.req), tt.what)
	}
	s := c.Stats()
	assert.Equal(t, Stats{Replies: 7, Bytes: s.Bytes, Executed: 7, Replayed: 8}, s)
	checkStore(t, c)
}

// TestReplayForms checks that a call keeps its key if its data item comes
// apart, with or without its padding (RFC 8166, Section 3.4.5), or in place.
func TestReplayForms(t *testing.T) {
	m := new(countingProgram)
	c := newReplay(t, m, Config{})
	data := []byte("seven!!")
	whole := madeBy("192.0.2.1:700", 9, data)
	require.Equal(t, makeReply(9, 1), answerOf(c, t.Context(), whole))
	head := len(whole.Msg) - 8
	for _, item := range [][]byte{data, append(bytes.Clone(data), 0)} {
		apart := madeBy("192.0.2.1:700", 9, data)
		apart.Msg, apart.Item, apart.ItemPos = apart.Msg[:head], item, head
		assert.Equal(t, makeReply(9, 1), answerOf(c, t.Context(), apart), len(item))
	}
	long := &oncrpc.Request{Msg: make([]byte, 300), Peer: whole.Peer}
	longer := &oncrpc.Request{Msg: make([]byte, 304), Peer: whole.Peer}
	assert.NotEqual(t, c.keyOf(long, rpcmsg.Procedure{}), c.keyOf(longer, rpcmsg.Procedure{}), "the length counts in addition to the checksum")
}

// TestReplayVerified checks that verified callers have replies of their own, by flavor
// and name.
func TestReplayVerified(t *testing.T) {
	m := new(countingProgram)
	c := newReplay(t, m, Config{})
	by := func(flavor uint32, principal string) *oncrpc.Request {
		req := madeBy("192.0.2.1:700", 9, nil)
		req.Verified = &rpcmsg.Cred{Flavor: flavor, Principal: principal}
		return req
	}
	for i, req := range []*oncrpc.Request{
		madeBy("192.0.2.1:700", 9, nil), by(rpcmsg.AuthKrb5, "a@X"), by(rpcmsg.AuthKrb5, "b@X"), by(rpcmsg.AuthKrb5i, "a@X"),
	} {
		for range 2 {
			assert.Equal(t, makeReply(9, uint32(1+i)), answerOf(c, t.Context(), req), "R2203-5.3.3.1-6")
		}
	}
}

// TestReplayProtected checks that a reply to a call inside of TLS is not for a connection
// with less protection, and that another connection of the same kind gets it.
func TestReplayProtected(t *testing.T) {
	m := new(countingProgram)
	c := newReplay(t, m, Config{})
	for i, security := range []*oncrpc.Security{{Mutual: true}, {}, nil} {
		for port := range 2 {
			conn := oncrpc.NewConnection(nil)
			req := withConn(conn, madeBy(fmt.Sprintf("192.0.2.1:%d", 700+port), 9, nil))
			req.Peer.Security = security
			assert.Equal(t, makeReply(9, uint32(1+i)), answerOf(c, t.Context(), req), security.String())
			conn.End()
		}
	}
}

// TestReplayRunning checks that a retry of a running call is answered together
// with the call, even if the connection of the first try has ended.
func TestReplayRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, gate := new(countingProgram), make(chan struct{})
		var seen context.Context
		m.make = func(ctx context.Context, _ *oncrpc.Call, _ *oncrpc.Reply) { seen = ctx; <-gate }
		c := newReplay(t, m, Config{})
		serve := func(ctx context.Context, port string) <-chan []byte {
			got, conn := make(chan []byte, 1), oncrpc.NewConnection(nil)
			go func() { got <- answerOf(c, ctx, withConn(conn, madeBy("192.0.2.1:"+port, 9, nil))) }()
			synctest.Wait()
			conn.End() // its client has made another connection
			return got
		}
		lost, lose := context.WithCancel(t.Context())
		first := serve(lost, "700")
		lose()
		synctest.Wait()
		assert.NoError(t, seen.Err(), "the call does not end with its connection")

		lost, lose = context.WithCancel(t.Context())
		second := serve(lost, "701")
		lose()
		assert.Nil(t, <-second, "a retry ends with its connection")

		third := serve(t.Context(), "702")
		fourth := serve(t.Context(), "703")
		assert.Nil(t, <-third, "a newer retry waits in its place")
		close(gate)
		assert.Equal(t, makeReply(9, 1), <-fourth)
		assert.Equal(t, makeReply(9, 1), <-first)
		assert.EqualValues(t, 1, m.executed)
		assert.EqualValues(t, 1, c.Stats().Joined)
		assert.Equal(t, makeReply(9, 1), answerOf(c, t.Context(), madeBy("192.0.2.1:704", 9, nil)), "afterwards")
	})
}

// TestReplayNot checks which replies are not kept. A retry that waits for such
// a reply gets a copy if the reply can be copied; otherwise it is executed.
func TestReplayNot(t *testing.T) {
	items := func(r *oncrpc.Reply) {
		r.Head = xdr.AppendUint32(r.Head, 4)
		copy(r.NewItem(4), "item")
		r.Tail = xdr.AppendUint32(nil, 4)
		_, ok := r.AddItem(4)
		assert.True(t, ok)
	}
	for _, tt := range []struct {
		name     string
		make     func(r *oncrpc.Reply)
		executed uint32 // for a call and a waiting retry
	}{
		{"postponed", func(r *oncrpc.Reply) { r.NoReplay = true }, 1},
		{"long", func(r *oncrpc.Reply) { r.Head = append(r.Head, make([]byte, maxReply)...) }, 2},
		{"two data items", items, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, gate := new(countingProgram), make(chan struct{})
				m.make = func(_ context.Context, _ *oncrpc.Call, r *oncrpc.Reply) { <-gate; tt.make(r) }
				c := newReplay(t, m, Config{})
				for range 2 {
					go answerOf(c, t.Context(), madeBy("192.0.2.1:700", 9, nil))
				}
				synctest.Wait()
				close(gate)
				synctest.Wait()
				assert.Equal(t, tt.executed, m.executed)
				assert.Zero(t, c.Stats().Replies)
				answerOf(c, t.Context(), madeBy("192.0.2.1:700", 9, nil))
				assert.Equal(t, tt.executed+1, m.executed)
				assert.Empty(t, c.calls)
				assert.Zero(t, buf.Default.Out())
			})
		})
	}
}

// TestReplayErrors checks that the retry of a refused call is executed, but not
// the retry of a failed call, which may have had effects.
func TestReplayErrors(t *testing.T) {
	for _, tt := range []struct {
		err      error
		stat     uint32
		executed int
	}{
		{oncrpc.ErrGarbageArgs, rpcmsg.GarbageArgs, 2},
		{oncrpc.ErrProcUnavail, rpcmsg.ProcUnavail, 2},
		{errors.New("fault"), rpcmsg.SystemErr, 1},
	} {
		n := 0
		mux := &oncrpc.Mux{Log: discardLogger()}
		mux.Register(rpctest.Program, 2, rpctest.HandlerFunc(func(context.Context, *oncrpc.Call, *oncrpc.Reply) error { n++; return tt.err }))
		c := New(mux, Config{Keep: func(rpcmsg.Procedure, []byte) bool { return true }})
		defer c.Close()
		for range 2 {
			assert.Equal(t, rpcmsg.AppendAccepted(nil, 9, tt.stat), answerOf(c, t.Context(), madeBy("192.0.2.1:700", 9, nil)))
		}
		assert.Equal(t, tt.executed, n, tt.err)
	}
}

// TestReplayNoAnswer checks that a call without an answer leaves no entry.
func TestReplayNoAnswer(t *testing.T) {
	served := 0
	c := New(serviceFunc(func(context.Context, *oncrpc.Request, *oncrpc.Reply) bool { served++; return false }),
		Config{Keep: func(rpcmsg.Procedure, []byte) bool { return true }})
	defer c.Close()
	for range 2 {
		assert.Nil(t, answerOf(c, t.Context(), madeBy("192.0.2.1:700", 9, nil)))
	}
	assert.Equal(t, 2, served)
	assert.Empty(t, c.calls)
}

type serviceFunc func(context.Context, *oncrpc.Request, *oncrpc.Reply) bool

func (f serviceFunc) Serve(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
	return f(ctx, req, rep)
}

// TestReplayRoom checks that a retry with too little space for the reply is not
// executed.
func TestReplayRoom(t *testing.T) {
	m := new(countingProgram)
	c := newReplay(t, m, Config{})
	answerOf(c, t.Context(), madeBy("192.0.2.1:700", 9, nil))
	small := madeBy("192.0.2.1:700", 9, nil)
	small.MaxReply = rpcmsg.AcceptedLen
	assert.Equal(t, rpcmsg.AppendAccepted(nil, 9, rpcmsg.SystemErr), answerOf(c, t.Context(), small))
	assert.EqualValues(t, 1, m.executed)
}

func TestReplayAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(countingProgram)
		c := newReplay(t, m, Config{})
		answerOf(c, t.Context(), madeBy("192.0.2.1:700", 9, nil))
		time.Sleep(defaultMaxAge - 1)
		assert.Equal(t, makeReply(9, 1), answerOf(c, t.Context(), madeBy("192.0.2.1:700", 9, nil)))
		time.Sleep(time.Nanosecond)
		assert.Equal(t, makeReply(9, 2), answerOf(c, t.Context(), madeBy("192.0.2.1:700", 9, nil)))
		checkStore(t, c)
	})
}

// TestReplayExpires checks that one call removes only some of the expired
// replies.
func TestReplayExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newReplay(t, new(countingProgram), Config{})
		for xid := range uint32(3 * maxExpiredRemovals) {
			answerOf(c, t.Context(), madeBy("192.0.2.1:700", xid, nil))
		}
		time.Sleep(defaultMaxAge)
		for _, left := range []int{2*maxExpiredRemovals + 1, maxExpiredRemovals + 2, 3, 4} {
			answerOf(c, t.Context(), madeBy("192.0.2.1:700", uint32(10000+left), nil))
			assert.Equal(t, left, c.Stats().Replies)
			checkStore(t, c)
		}
	})
}

// TestReplayClose checks that Close ends the context of calls.
func TestReplayClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &countingProgram{make: func(ctx context.Context, _ *oncrpc.Call, _ *oncrpc.Reply) { <-ctx.Done() }}
		c := newReplay(t, m, Config{})
		go answerOf(c, t.Context(), madeBy("192.0.2.1:700", 9, nil))
		synctest.Wait()
		c.Close()
		synctest.Wait()
		assert.Equal(t, 1, c.Stats().Replies)
	})
}

// TestBoundsTold checks that the operator's documentation states the actual
// bounds.
func TestBoundsTold(t *testing.T) {
	doc, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	c := New(new(oncrpc.Mux), Config{})
	defer c.Close()
	assert.Contains(t, string(doc), fmt.Sprintf("\n| replies kept for retransmitted calls | %d MiB, for %.0f minutes at least |", c.cfg.MaxMemory>>20, c.cfg.MaxAge.Minutes()))
}

func TestResumes(t *testing.T) {
	assert.True(t, oncrpc.Resumes(newReplay(t, new(countingProgram), Config{})))
}
