package rpcrdma

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/buf"
	"github.com/nfsrdma/nfsrdma/rdma/rdmatest"
	"github.com/nfsrdma/nfsrdma/rpcrdma/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// callbackProg is a requester's program. Its procedure 1 echoes the arguments.
const callbackProg = 0x40000000

// callbackService is a backchannel that knows one program.
func callbackService(h oncrpc.Handler) oncrpc.Service {
	m := new(oncrpc.Mux)
	m.Register(callbackProg, 1, h)
	return m
}

// A handlerFunc is a function as an oncrpc.Handler.
type handlerFunc func(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error

func (h handlerFunc) ServeRPC(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	return h(ctx, c, r)
}

// repeater answers with its arguments.
var repeater = handlerFunc(func(_ context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	r.Head = append(r.Head, readWords(&c.Args)...)
	return nil
})

// readWords returns what r still has, in whole words.
func readWords(r *xdr.Reader) []byte {
	b := []byte{}
	for {
		next := *r
		v := next.Uint32()
		if next.Err() != nil {
			return b
		}
		*r, b = next, xdr.AppendUint32(b, v)
	}
}

// callBack makes a call to repeater, and checks the results.
func callBack(ctx context.Context, c oncrpc.Caller, args string) error {
	x := &oncrpc.Exchange{Prog: callbackProg, Vers: 1, Proc: 1, Args: []byte(args), MaxResults: len(args)}
	if err := c.Call(ctx, x); err != nil {
		return err
	}
	defer x.Release()
	if got := string(readWords(&x.Results)); got != args {
		return errors.New("wrong results: " + got)
	}
	return nil
}

// withRawServer runs f in a bubble, with a requester and the server's end of its
// connection, by which the test sends arbitrary messages. It checks that no
// resources leak.
func withRawServer(t *testing.T, cfg ClientConnConfig, f func(t *testing.T, c *ClientConn, q *requester)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		before := buf.Default.Out()
		l, q := rdmatest.Listen(t), &requester{t: t}
		go func() {
			req, err := l.Accept(t.Context())
			require.NoError(t, err)
			c, err := req.Accept(rdma.ConnConfig{Handler: q, PrivateData: linux.AppendTo(nil), Recvs: 1 << 20})
			require.NoError(t, err)
			q.Conn = c.(*rdmatest.Conn)
		}()
		c, err := DialConn(t.Context(), &memDialer{l: l}, "", cfg)
		require.NoError(t, err)
		synctest.Wait()
		f(t, c, q)
		require.NoError(t, c.Close())
		synctest.Wait()
		assert.Equal(t, before, buf.Default.Out(), "buffers lent")
	})
}

// sendReverse sends a call in the reverse direction.
func (q *requester) sendReverse(xid uint32, args string) {
	q.t.Helper()
	q.sendCall(wire.Header{XID: xid}, callbackCall(xid, args))
}

func callbackCall(xid uint32, args string) []byte {
	return append(oncrpc.AppendCall(nil, xid, &oncrpc.Exchange{Prog: callbackProg, Vers: 1, Proc: 1}, ""), args...)
}

// TestReverseGolden checks that both ends send knfsd's and Linux's client's
// messages.
func TestReverseGolden(t *testing.T) {
	call, reply := wiretest.Hex(t, "testdata/reverse-call.hex"), wiretest.Hex(t, "testdata/reverse-reply.hex")
	const argsAt, resultsAt = 28 + 64, 28 + 24
	t.Run("requester", func(t *testing.T) {
		answer := handlerFunc(func(_ context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
			assert.Equal(t, call[argsAt:], readWords(&c.Args))
			assert.Equal(t, uint32(rpcmsg.AuthSys), c.Cred.Flavor, "R8167-8-1")
			r.Head = append(r.Head, reply[resultsAt:]...)
			return nil
		})
		withRawServer(t, ClientConnConfig{Backchannel: callbackService(answer)}, func(t *testing.T, _ *ClientConn, q *requester) {
			q.sendRaw(call)
			// R8167-4.1-3, R8167-5.2-1, R8167-5.2-2, R8167-5.2-3
			assert.Equal(t, reply, q.onlyAnswer().wire)
		})
	})
	t.Run("responder", func(t *testing.T) {
		withServer(t, &Server{Handler: null, ReverseCredits: 2}, func(t *testing.T, r *testServer) {
			q := r.dialLinux()
			back := &r.onlyConn().reverse
			rc, err := back.reverseRequester()
			require.NoError(t, err)
			rc.xids = oncrpc.NewXIDs(binary.BigEndian.Uint32(call))
			rc.cfg.Machine = "rig"
			x := &oncrpc.Exchange{Prog: callbackProg, Vers: 1, Proc: 1, Args: call[argsAt:], MaxResults: 512}
			x.Cred.Flavor = rpcmsg.AuthSys
			done := make(chan error, 1)
			go func() { done <- back.Call(t.Context(), x) }()
			// R8167-5.1-1, R8167-5.1-2, R8167-5.1-3
			assert.Equal(t, call, q.onlyAnswer().wire)
			q.sendRaw(reply)
			require.NoError(t, <-done)
			assert.Equal(t, reply[resultsAt:], readWords(&x.Results))
			x.Release()
			assert.Equal(t, 2, rc.Credits(), "the grant, up to the request")
		})
	})
}

// TestReverse checks that a program can call back while it serves a call, with
// both ends ours.
func TestReverse(t *testing.T) {
	var cred rpcmsg.Cred
	service := handlerFunc(func(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
		cred = c.Cred
		assert.Equal(t, "rdma", c.Peer.Network)
		assert.Nil(t, c.Peer.Reverse, "no third direction")
		return repeater(ctx, c, r)
	})
	program := handlerFunc(func(ctx context.Context, c *oncrpc.Call, _ *oncrpc.Reply) error {
		// R8167-2.4.1-1: the reverse call has the same XID as the call that is
		// being served.
		rc, err := c.Peer.Reverse.(*ReverseClient).reverseRequester()
		require.NoError(t, err)
		rc.xids = oncrpc.NewXIDs(c.XID)
		for range 3 {
			require.NoError(t, callBack(ctx, c.Peer.Reverse, "from the server.")) // R8167-2.4-1
		}
		x := &oncrpc.Exchange{Prog: callbackProg, Vers: 1, Proc: 1, Cred: rpcmsg.Cred{Flavor: rpcmsg.AuthSys, UID: 17, GID: 4, GIDs: []uint32{5}}}
		require.NoError(t, c.Peer.Reverse.Call(ctx, x))
		x.Release()
		// RPC errors are the forward direction's.
		assert.ErrorIs(t, c.Peer.Reverse.Call(ctx, &oncrpc.Exchange{Prog: callbackProg + 1, Vers: 1}), oncrpc.ErrProgUnavail)
		return nil
	})
	mux := new(oncrpc.Mux)
	mux.Register(echoProg, 1, program)
	// R8167-4.1-1, R8167-4.3.1-1: the one forward credit is in use.
	cfg := ClientConnConfig{Credits: 1, Backchannel: callbackService(service), BackchannelCredits: 3}
	withTappedServer(t, &Server{Handler: mux, Credits: 1}, new(tapListener), func(t *testing.T, r *testServer) {
		c, err := DialConn(t.Context(), &memDialer{l: r.listen}, "", cfg)
		require.NoError(t, err)
		for range 3 {
			x := &oncrpc.Exchange{Prog: echoProg, Vers: 1, Proc: 1}
			require.NoError(t, c.Call(t.Context(), x))
			x.Release()
		}
		assert.EqualValues(t, 17, cred.UID, "R8167-8-1")
		assert.Equal(t, []uint32{5}, cred.GIDs)
		assert.Equal(t, 1, c.Credits())
		rc, err := r.onlyConn().reverse.reverseRequester()
		require.NoError(t, err)
		assert.Equal(t, 3, rc.Credits(), "R8167-4.1-2")
		synctest.Wait()
		r.tap.mu.Lock()
		assert.Zero(t, r.tap.used, "R8167-4.3.2-1: each reverse call brings the receive for its reply")
		r.tap.mu.Unlock()
		require.NoError(t, c.Close())
	})
}

// TestReverseCredits checks that a responder has no more reverse calls in
// flight than granted, independently of forward credits: one until the first
// reply, and then the last reply's grant.
func TestReverseCredits(t *testing.T) {
	const granted, calls = 2, 9
	var mu sync.Mutex
	var running, most int
	first := true
	service := handlerFunc(func(context.Context, *oncrpc.Call, *oncrpc.Reply) error {
		mu.Lock()
		running++
		if first {
			assert.Equal(t, 1, running)
		}
		most = max(most, running)
		mu.Unlock()
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		running--
		first = false
		return nil
	})
	withServer(t, &Server{Handler: null, Credits: 32}, func(t *testing.T, r *testServer) {
		c, err := DialConn(t.Context(), &memDialer{l: r.listen}, "", ClientConnConfig{Backchannel: callbackService(service), BackchannelCredits: granted})
		require.NoError(t, err)
		synctest.Wait()
		back := &r.onlyConn().reverse
		var all sync.WaitGroup
		for range calls {
			all.Go(func() { assert.NoError(t, callBack(t.Context(), back, "")) })
		}
		for range 64 { // R8167-4.1-1
			x := &oncrpc.Exchange{Prog: 1, Vers: 1}
			require.NoError(t, c.Call(t.Context(), x))
			x.Release()
		}
		assert.Equal(t, 32, c.Credits(), "R8167-4.1-1: the forward grant is unchanged")
		all.Wait()
		assert.Equal(t, granted, most, "R8167-4.1-2, R8167-4.1-3")
		require.NoError(t, c.Close())
	})
}

// TestReverseOverrun checks that a server that makes more calls than granted
// loses the connection, before the calls take more memory.
func TestReverseOverrun(t *testing.T) {
	const credits = 3
	open := false
	service := handlerFunc(func(ctx context.Context, _ *oncrpc.Call, _ *oncrpc.Reply) error {
		if !open {
			<-ctx.Done() // R8167-5.4-1: the connection's end ends the call
		}
		return nil
	})
	cfg := ClientConnConfig{Backchannel: callbackService(service), BackchannelCredits: credits, Credits: 128}
	withRawServer(t, cfg, func(t *testing.T, c *ClientConn, q *requester) {
		// Granted calls find a receive, independently of other calls.
		for i := range uint32(credits) {
			q.sendReverse(i, "")
		}
		synctest.Wait()
		assert.Empty(t, q.closeErrors(), "R8167-4.3.1-1, R8167-6-2")
		q.sendReverse(credits, "")
		synctest.Wait()
		require.Len(t, q.closeErrors(), 1)
		assert.ErrorIs(t, q.closeErrors()[0], rdmatest.ErrNoRecv)
	})
	// With receives for forward replies posted, this end must count.
	withRawServer(t, cfg, func(t *testing.T, c *ClientConn, q *requester) {
		require.NoError(t, c.conn.PostRecv(100))
		for i := range uint32(2 * credits) {
			q.sendReverse(i, "")
		}
		synctest.Wait()
		assert.Empty(t, q.closeErrors())
		q.sendReverse(99, "")
		synctest.Wait()
		require.Len(t, q.closeErrors(), 1)
		assert.ErrorIs(t, q.closeErrors()[0], errReverseOverrun)
	})
	// Replies that the server does not read do not pile up further.
	open = true
	withRawServer(t, cfg, func(t *testing.T, c *ClientConn, q *requester) {
		require.NoError(t, c.conn.PostRecv(100))
		defer q.Pause()()
		for i := range uint32(100) {
			if q.Post(rdma.WR{Op: rdma.OpSend, Data: [][]byte{msgHeader(i), callbackCall(i, string(patternBytes(3000)))}}) != nil {
				break
			}
		}
		synctest.Wait()
		assert.ErrorIs(t, c.closeCause(), errReverseOverrun)
	})
}

func msgHeader(xid uint32) []byte {
	h := wire.Header{XID: xid, Vers: wire.Version, Credit: 1, Proc: wire.Msg}
	return h.AppendTo(nil)
}

// TestReverseRefused checks that calls that a requester does not take in the
// reverse direction are answered with ERR_CHUNK, and do no harm.
func TestReverseRefused(t *testing.T) {
	segment := chunks.Segment{Handle: 1, Length: 100, Offset: 2}
	var lists [3]chunks.Lists
	lists[0].Reads = []chunks.ReadSegment{{Position: 40, Segment: segment}}
	lists[1].AddWrite(chunks.Chunk{segment})
	lists[2].HasReply, lists[2].Reply = true, chunks.Chunk{segment}
	long := handlerFunc(func(_ context.Context, _ *oncrpc.Call, r *oncrpc.Reply) error {
		r.Head = append(r.Head, patternBytes(4096-28-24+4)...)
		return nil
	})
	const tooLong = "no space for the reply"
	for name, send := range map[string]func(q *requester){
		"R8167-5.3-1, R8167-5.3-3 Read list": func(q *requester) { q.sendCall(newMsg(lists[0]), callbackCall(testXID, "")) },
		"R8167-5.3-3 Write list":             func(q *requester) { q.sendCall(newMsg(lists[1]), callbackCall(testXID, "")) },
		"R8167-5.3-3 Reply chunk":            func(q *requester) { q.sendCall(newMsg(lists[2]), callbackCall(testXID, "")) },
		"R8167-5.3-3 Long Call": func(q *requester) {
			q.sendCall(newNoMsg(chunks.Lists{Reads: []chunks.ReadSegment{{Segment: segment}}}), nil)
		},
		"R8167-5.1-3 two XIDs": func(q *requester) { q.sendCall(wire.Header{XID: testXID}, callbackCall(testXID+1, "")) },
		tooLong:                func(q *requester) { q.sendCall(wire.Header{XID: testXID}, callbackCall(testXID, "")) },
	} {
		t.Run(name, func(t *testing.T) {
			back := callbackService(repeater)
			if name == tooLong {
				back = serviceOf(long)
			}
			withRawServer(t, ClientConnConfig{Backchannel: back, BackchannelCredits: 2}, func(t *testing.T, c *ClientConn, q *requester) {
				for range 5 { // each posts its receive again
					send(q)
					q.requireError(wire.ErrChunk)
				}
				assert.Zero(t, c.reverse.inFlight)
			})
		})
	}
}

// serviceOf answers all calls with h's results, without a Mux, which would
// limit their length.
func serviceOf(h handlerFunc) oncrpc.Service {
	return serviceFunc(func(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
		rep.Head = appendSuccess(rep.Head, binary.BigEndian.Uint32(req.Msg))
		return h(ctx, nil, rep) == nil
	})
}

// TestReverseReplies checks that replies in parts, in other memory, and with
// all lengths that fit are sent unchanged, and that no reply is sent if the
// service makes none.
func TestReverseReplies(t *testing.T) {
	var rep oncrpc.Reply
	answer := true
	cfg := ClientConnConfig{BackchannelCredits: 1, Backchannel: serviceFunc(func(_ context.Context, req *oncrpc.Request, r *oncrpc.Reply) bool {
		assert.Equal(t, 4096-28, req.MaxReply, "R8167-4.2-1")
		r.Head, r.Tail = append(r.Head, rep.Head...), rep.Tail
		if rep.Item != nil {
			copy(r.NewItem(len(rep.Item.B)), rep.Item.B)
		}
		if len(rep.Head) == 8 {
			r.Head = append([]byte{}, r.Head...)
		}
		return answer
	})}
	withRawServer(t, cfg, func(t *testing.T, _ *ClientConn, q *requester) {
		for _, n := range []int{4, 8, 4068} {
			rep = oncrpc.Reply{Head: patternBytes(n)}
			q.sendReverse(testXID, "")
			assert.Equal(t, patternBytes(n), q.onlyAnswer().body)
		}
		rep = oncrpc.Reply{Head: patternBytes(8), Item: &buf.Buf{B: patternBytes(5)}, Tail: patternBytes(12)}
		q.sendReverse(testXID, "")
		want := append(append(patternBytes(8), patternBytes(5)...), 0, 0, 0)
		assert.Equal(t, append(want, patternBytes(12)...), q.onlyAnswer().body)
		answer = false
		for range 3 {
			q.sendReverse(testXID, "")
			assert.Empty(t, q.newAnswers())
		}
		answer = true
		q.sendReverse(testXID, "")
		q.onlyAnswer()
	})
}

// TestReverseUnwanted checks that a requester without a backchannel drops
// calls, even with its own calls' XIDs, and continues.
func TestReverseUnwanted(t *testing.T) {
	withRawServer(t, ClientConnConfig{}, func(t *testing.T, c *ClientConn, q *requester) {
		done := make(chan error, 1)
		go func() { done <- callBack(t.Context(), c, "") }()
		xid := q.onlyAnswer().XID
		q.sendReverse(xid, "") // R8167-2.4-1
		q.sendCall(wire.Header{XID: xid, Lists: chunks.Lists{Reads: []chunks.ReadSegment{{}}}}, callbackCall(xid, ""))
		q.sendReverse(xid+1, "")
		assert.Empty(t, q.newAnswers())
		assert.Empty(t, done)
		q.sendCall(wire.Header{XID: xid}, appendSuccess(nil, xid))
		require.NoError(t, <-done)
	})
}

// TestReverseThresholds checks that a reverse call that does not fit is
// rejected before it is sent. It has the limit for forward replies, and its
// reply has the limit for forward calls.
func TestReverseThresholds(t *testing.T) {
	const header = 28 + 40
	for _, tt := range []struct{ client, server, want int }{
		{1024, 4096, 1024}, {4096, 1024, 1024}, {8192, 4096, 4096}, {65536, 65536, 65536},
	} {
		withServer(t, &Server{Handler: null, Inline: tt.server}, func(t *testing.T, r *testServer) {
			c, err := DialConn(t.Context(), &memDialer{l: r.listen}, "", ClientConnConfig{Inline: tt.client, Backchannel: callbackService(repeater)})
			require.NoError(t, err)
			synctest.Wait()
			send, recv := c.Thresholds()
			assert.Equal(t, tt.want, send)
			assert.Equal(t, tt.want, recv)
			back := &r.onlyConn().reverse
			require.NoError(t, callBack(t.Context(), back, string(patternBytes(tt.want-header)))) // R8167-4.2-1
			for range 20 {                                                                        // R8167-5.3-2, and no credit is lost
				require.ErrorIs(t, callBack(t.Context(), back, string(patternBytes(tt.want-header+4))), ErrReverseLong)
			}
			require.NoError(t, callBack(t.Context(), back, ""))
			require.NoError(t, c.Close())
		})
	}
}

// TestReverseReconnect checks that a connection's end ends its reverse calls at
// once, and that new ones are possible only after the requester has
// reconnected, which it does unasked.
func TestReverseReconnect(t *testing.T) {
	for _, backchannel := range []bool{true, false} {
		var hold chan struct{}
		service := handlerFunc(func(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
			if hold != nil {
				<-ctx.Done()
			}
			return repeater(ctx, c, r)
		})
		cfg := ClientConfig{}
		if backchannel {
			cfg.Conn.Backchannel, cfg.Conn.BackchannelCredits = callbackService(service), 2
		}
		withClient(t, cfg, func(t *testing.T, l *Client, p *testAddress) {
			require.NoError(t, callEcho(t.Context(), l, 0, 0, 0))
			time.Sleep(steadyTime)
			if backchannel {
				back := p.reverseClient(t)
				require.NoError(t, callBack(t.Context(), back, ""))
				hold = make(chan struct{})
				done := make(chan error, 2)
				for range 2 {
					go func() { done <- callBack(t.Context(), back, "") }()
				}
				synctest.Wait()
				p.lastConn().Abort(rdmatest.ErrCut)
				for range 2 {
					assert.ErrorIs(t, <-done, rdma.ErrClosed, "R8167-5.4-1")
				}
				assert.ErrorIs(t, callBack(t.Context(), back, ""), rdma.ErrClosed)
				hold = nil
			} else {
				p.lastConn().Abort(rdmatest.ErrCut)
			}
			time.Sleep(time.Hour)
			if !backchannel {
				assert.Equal(t, 1, p.connCount(), "no caller waits")
				return
			}
			require.Equal(t, 2, p.connCount(), "R8167-5.4-2")
			back := p.reverseClient(t)
			var all sync.WaitGroup
			for range 20 { // R8167-4.3.1-2, R8167-4.3.2-2
				all.Go(func() { assert.NoError(t, callBack(t.Context(), back, "once more...")) })
				all.Go(func() { assert.NoError(t, callEcho(t.Context(), l, 10, 10, 10)) })
			}
			all.Wait()
			assert.Equal(t, 2, p.connCount())
		})
	}
}

// reverseClient returns the server's ReverseClient for its only connection.
func (p *testAddress) reverseClient(t *testing.T) *ReverseClient {
	t.Helper()
	p.server.mu.Lock()
	defer p.server.mu.Unlock()
	require.Len(t, p.server.conns, 1)
	for c := range p.server.conns {
		return &c.reverse
	}
	return nil
}

// TestReverseErrors checks that an RDMA_ERROR, whose direction is unknown, does
// not change credits, and fails its call.
func TestReverseErrors(t *testing.T) {
	refusal := wire.Header{Vers: wire.Version, Credit: 77, Proc: wire.Error, Code: wire.ErrChunk}
	t.Run("forward", func(t *testing.T) {
		withRawServer(t, ClientConnConfig{}, func(t *testing.T, c *ClientConn, q *requester) {
			done := make(chan error, 1)
			go func() { done <- callBack(t.Context(), c, "") }()
			refusal.XID = q.onlyAnswer().XID
			q.sendRaw(refusal.AppendTo(nil))
			var remote *RemoteError
			require.ErrorAs(t, <-done, &remote)
			assert.Equal(t, 1, c.Credits(), "R8167-4.1-4")
		})
	})
	t.Run("reverse", func(t *testing.T) {
		withServer(t, &Server{Handler: null}, func(t *testing.T, r *testServer) {
			q := r.dialLinux()
			refusal.XID = 12345
			q.sendRaw(refusal.AppendTo(nil)) // no call has this XID
			back := &r.onlyConn().reverse
			done := make(chan error, 1)
			go func() { done <- callBack(t.Context(), back, "") }()
			xid := q.onlyAnswer().XID
			q.sendRaw(refusal.AppendTo(nil))
			assert.Empty(t, q.newAnswers())
			refusal.XID = xid
			q.sendRaw(refusal.AppendTo(nil))
			var remote *RemoteError
			require.ErrorAs(t, <-done, &remote)
			assert.Equal(t, 1, back.client.Load().Credits(), "R8167-4.1-4")
		})
	})
}

// TestReverseStrayReplies checks that replies without a call are dropped, in
// either direction, and so is a reply whose caller has gone: until then the
// credit is in use.
func TestReverseStrayReplies(t *testing.T) {
	withTappedServer(t, &Server{Handler: callbackService(repeater)}, new(tapListener), func(t *testing.T, r *testServer) {
		q := r.dialLinux()
		stray := func() {
			for range 2 * 128 { // more than it has receives
				q.sendCall(wire.Header{XID: 7}, appendSuccess(nil, 7))
				require.Empty(t, q.newAnswers())
			}
		}
		stray()
		back := &r.onlyConn().reverse
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- callBack(ctx, back, "") }()
		xid := q.onlyAnswer().XID
		stray()
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
		go func() { done <- callBack(t.Context(), back, "") }()
		assert.Empty(t, q.newAnswers(), "it has no credit")
		q.sendCall(wire.Header{XID: xid}, appendSuccess(nil, xid))
		next := q.onlyAnswer().XID
		assert.NotEqual(t, xid, next)
		assert.Empty(t, done)
		q.sendCall(wire.Header{XID: next}, appendSuccess(nil, next))
		require.NoError(t, <-done)
		q.sendCall(newMsg(chunks.Lists{}), rpcCall(testXID, ""))
		q.onlyAnswer()
		r.tap.mu.Lock()
		defer r.tap.mu.Unlock()
		assert.Zero(t, r.tap.used)
	})
}

// TestReverseDrain checks that a draining server takes the replies to its
// reverse calls.
func TestReverseDrain(t *testing.T) {
	hold := false
	program := handlerFunc(func(ctx context.Context, c *oncrpc.Call, _ *oncrpc.Reply) error {
		if hold {
			time.Sleep(time.Second)
		}
		return callBack(ctx, c.Peer.Reverse, "recalled")
	})
	mux := new(oncrpc.Mux)
	mux.Register(echoProg, 1, program)
	withServer(t, &Server{Handler: mux}, func(t *testing.T, r *testServer) {
		c, err := DialConn(t.Context(), &memDialer{l: r.listen}, "", ClientConnConfig{Backchannel: callbackService(repeater)})
		require.NoError(t, err)
		hold = true
		done := make(chan error, 1)
		x := &oncrpc.Exchange{Prog: echoProg, Vers: 1, Proc: 1}
		go func() { done <- c.Call(t.Context(), x) }()
		synctest.Wait()
		require.NoError(t, r.Shutdown(t.Context()))
		require.NoError(t, <-done)
		x.Release()
		require.NoError(t, c.Close())
	})
}

// TestReverseIdle checks that no reverse messages flow before a program wants
// them (R8167-6-1), and that a requester without a backchannel posts no
// receives for them.
func TestReverseIdle(t *testing.T) {
	withClientConn(t, &Server{}, ClientConnConfig{}, func(t *testing.T, c *ClientConn, _ *echoProgram, d *memDialer) {
		heard := c.received.Load()
		for i := range 10 {
			require.NoError(t, callEcho(t.Context(), c, 10, 10, 10))
			synctest.Wait()
			assert.EqualValues(t, heard+uint64(i)+1, c.received.Load(), "only replies")
		}
		assert.Nil(t, c.reverse)
	})
}

func TestReverseConfig(t *testing.T) {
	for _, cfg := range []ClientConnConfig{{BackchannelCredits: -1}, {BackchannelCredits: maxCredits + 1}} {
		assert.ErrorContains(t, cfg.fillAndCheck(), "reverse credits")
	}
	for _, n := range []int{-1, maxCredits + 1} {
		assert.ErrorContains(t, (&Server{Handler: null, ReverseCredits: n}).init(), "credits")
	}
	var cfg ClientConnConfig
	require.NoError(t, cfg.fillAndCheck())
	assert.Equal(t, 16, cfg.BackchannelCredits)
}

// FuzzReverse checks that every message belongs to one direction only.
func FuzzReverse(f *testing.F) {
	f.Add(wiretest.Hex(f, "testdata/reverse-call.hex"))
	f.Add(wiretest.Hex(f, "testdata/reverse-reply.hex"))
	f.Add(wiretest.Hex(f, "testdata/err-chunk.hex"))
	f.Add(wiretest.Hex(f, "testdata/read-chunk-call.hex"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var h wire.Header
		body, err := h.ParseReply(b)
		call, reply := isReverse(&h, body, err, b), answersReverse(b)
		assert.False(t, call && reply)
		if reply && h.Proc == wire.Msg && err == nil {
			assert.EqualValues(t, msgReply, msgType(body))
			assert.Equal(t, wire.MinLen-wire.FixedLen, h.Lists.Len())
		}
	})
}
