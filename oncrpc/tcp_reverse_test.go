package oncrpc

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const cbProg = 0x40000000 // Linux's program for callbacks

// startReverse starts a server, and returns a connection to it with the Peer that
// its programs see.
func startReverse(t *testing.T) (r *testServer, nc *net.TCPConn, peer *Peer) {
	m := echoMux()
	peers := make(chan *Peer, 1)
	m.Register(testProg, 3, handlerFunc(func(_ context.Context, c *Call, _ *Reply) error {
		peers <- c.Peer
		return nil
	}))
	r = startServer(t, &Server{Handler: m, Log: discardLogger()})
	nc = r.dialServer()
	_, err := nc.Write(newRecord(newCallMessage(1, testProg, 3, 1)))
	require.NoError(t, err)
	readRecord(t, nc)
	return r, nc, <-peers
}

// reverseCall makes a call to the client in the background.
func reverseCall(ctx context.Context, p *Peer, x *Exchange) <-chan error {
	end := make(chan error, 1)
	go func() { end <- p.Reverse.Call(ctx, x) }()
	return end
}

// newCallback returns a call with arguments of n bytes.
func newCallback(n int) *Exchange {
	return &Exchange{Prog: cbProg, Vers: 1, Proc: 1, Args: make([]byte, n), MaxResults: 16}
}

func successRecord(xid uint32, results ...byte) []byte {
	return newRecord(append(rpcmsg.AppendAccepted(nil, xid, rpcmsg.Success), results...))
}

// TestReverseGolden checks the bytes of a call to the client, and its results.
func TestReverseGolden(t *testing.T) {
	_, nc, peer := startReverse(t)
	x := &Exchange{
		Prog: cbProg, Vers: 1, Proc: 1, Cred: rpcmsg.Cred{Flavor: rpcmsg.AuthSys, UID: 5, GID: 6},
		Args: []byte{0, 0, 0, 3}, Item: []byte("abc"), Tail: []byte{0, 0, 0, 9}, MaxResults: 4,
	}
	end := reverseCall(t.Context(), peer, x)
	got := readRecord(t, nc)
	xid := binary.BigEndian.Uint32(got)
	want := appendWords(xid, rpcmsg.MsgCall, rpcmsg.Version, cbProg, 1, 1, rpcmsg.AuthSys, 20, 0, 0, 5, 6, 0, rpcmsg.AuthNone, 0)
	assert.Equal(t, append(want, 0, 0, 0, 3, 'a', 'b', 'c', 0, 0, 0, 0, 9), got)
	_, err := nc.Write(successRecord(xid, 0, 0, 0, 7))
	require.NoError(t, err)
	require.NoError(t, <-end)
	assert.EqualValues(t, 7, x.Results.Uint32())
	assert.NoError(t, x.Results.Done())
	x.Release()

	end = reverseCall(t.Context(), peer, newCallback(0))
	again := binary.BigEndian.Uint32(readRecord(t, nc))
	assert.Equal(t, xid+1, again)
	_, err = nc.Write(newRecord(rpcmsg.AppendAccepted(nil, again, rpcmsg.ProgUnavail)))
	require.NoError(t, err)
	assert.ErrorIs(t, <-end, ErrProgUnavail)
}

func appendWords(w ...uint32) (b []byte) {
	for _, v := range w {
		b = xdr.AppendUint32(b, v)
	}
	return b
}

// A fakeSigner makes the same call each time, in place of signing one.
type fakeSigner struct {
	whole bool
	call  []byte
	err   error
	sent  int
}

var errFakeSigner = errors.New("fake signer")

func (s *fakeSigner) Whole() bool                 { return s.whole }
func (s *fakeSigner) Overhead() (call, reply int) { return len(s.call), 8 }
func (s *fakeSigner) Sent()                       { s.sent++ }

func (s *fakeSigner) AppendCall(b []byte, xid uint32, _ *Exchange) ([]byte, error) {
	return append(append(b, appendWords(xid)...), s.call...), s.err
}

func (s *fakeSigner) Open(verf rpcmsg.OpaqueAuth, _ uint32, r *xdr.Reader) error {
	if string(verf.Body) != "verifier" {
		return errFakeSigner
	}
	r.Uint32()
	return nil
}

// TestReverseSigned checks that a call to the client goes as its Signer makes it, and that
// the Signer opens the reply.
func TestReverseSigned(t *testing.T) {
	_, nc, peer := startReverse(t)
	for _, whole := range []bool{false, true} {
		s := &fakeSigner{whole: whole, call: []byte("call")}
		x := &Exchange{Signer: s, Args: []byte("args"), Item: []byte("item"), MaxResults: 8}
		for _, verifier := range []string{"verifier", "VERIFIER"} {
			end := reverseCall(t.Context(), peer, x)
			got := readRecord(t, nc)
			want := "callitem"
			if whole {
				want = "call"
			}
			assert.Equal(t, want, string(got[4:]))
			reply := append(got[:4:4], appendWords(1, 0, 6, 8)...)
			_, err := nc.Write(newRecord(append(append(reply, verifier...), appendWords(0, 1, 2)...)))
			require.NoError(t, err)
			if err := <-end; verifier != "verifier" {
				assert.ErrorIs(t, err, errFakeSigner)
				continue
			}
			assert.EqualValues(t, 2, x.Results.Uint32())
			assert.NoError(t, x.Results.Done())
			x.Release()
		}
		assert.Equal(t, 2, s.sent)
		s.err = errFakeSigner
		assert.ErrorIs(t, peer.Reverse.Call(t.Context(), x), errFakeSigner)
		assert.Equal(t, 3, s.sent)
	}
}

// TestReverseMatches makes many reverse calls at once, among forward calls. The
// client answers in another order, and in fragments.
func TestReverseMatches(t *testing.T) {
	_, nc, peer := startReverse(t)
	const calls = 4 * maxReverse
	var all sync.WaitGroup
	for i := range uint32(calls) {
		all.Go(func() {
			x := &Exchange{Prog: cbProg, Vers: 1, Proc: 1, Args: appendWords(i), MaxResults: 4}
			if assert.NoError(t, peer.Reverse.Call(t.Context(), x)) {
				assert.Equal(t, i, x.Results.Uint32())
				x.Release()
			}
		})
	}
	forward := 0
	for left := calls; left > 0; {
		var batch [][]byte
		for range min(maxReverse, left) {
			batch = append(batch, readRecord(t, nc))
		}
		for i := len(batch) - 1; i >= 0; i-- {
			msg := batch[i]
			_, err := nc.Write(newRecord(echoCall(9, procHead, []byte("forward"))))
			require.NoError(t, err)
			answer := successRecord(binary.BigEndian.Uint32(msg), msg[len(msg)-4:]...)[markLen:]
			_, err = nc.Write(append(newFragment(false, answer[:5]), newFragment(true, answer[5:])...))
			require.NoError(t, err)
			forward++
			left--
		}
		var next [][]byte // replies to forward calls, and further reverse calls
		for len(next) < len(batch)+min(maxReverse, left) {
			next = append(next, readRecord(t, nc))
		}
		for _, msg := range next {
			if isReply(msg) {
				assert.Equal(t, echoReply(9, procHead, []byte("forward")), msg)
				forward--
				continue
			}
			_, err := nc.Write(successRecord(binary.BigEndian.Uint32(msg), msg[len(msg)-4:]...))
			require.NoError(t, err)
			left--
		}
		for forward > 0 {
			assert.Equal(t, echoReply(9, procHead, []byte("forward")), readRecord(t, nc))
			forward--
		}
	}
	all.Wait()
}

// TestReverseBounded checks the number of calls in flight and their length, and that a
// call which is given up frees its slot for another.
func TestReverseBounded(t *testing.T) {
	r, nc, peer := startReverse(t)
	assert.ErrorIs(t, peer.Reverse.Call(t.Context(), newCallback(smallRecord)), ErrReverseLong)
	assert.ErrorIs(t, peer.Reverse.Call(t.Context(), &Exchange{MaxResults: smallRecord}), ErrReverseLong)
	long := &fakeSigner{whole: true, call: make([]byte, smallRecord)}
	assert.ErrorIs(t, peer.Reverse.Call(t.Context(), &Exchange{Signer: long}), ErrReverseLong)
	assert.Equal(t, 1, long.sent)

	ctx, cancel := context.WithCancelCause(t.Context())
	var ends []<-chan error
	var xids []uint32
	for range maxReverse {
		ends = append(ends, reverseCall(ctx, peer, newCallback(0)))
		xids = append(xids, binary.BigEndian.Uint32(readRecord(t, nc)))
	}
	waiting := reverseCall(t.Context(), peer, newCallback(0))
	require.NoError(t, nc.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
	_, err := nc.Read(make([]byte, 1))
	require.Error(t, err, "the next call waits")
	require.NoError(t, nc.SetReadDeadline(time.Time{}))
	enough := errors.New("enough")
	cancel(enough)
	for _, end := range ends {
		assert.ErrorIs(t, <-end, enough)
	}
	last := binary.BigEndian.Uint32(readRecord(t, nc))
	for _, xid := range append(xids, last+1) { // late, and never asked for
		_, err := nc.Write(successRecord(xid))
		require.NoError(t, err)
	}
	_, err = nc.Write(successRecord(last, make([]byte, 500)...))
	require.NoError(t, err)
	assert.ErrorIs(t, <-waiting, errRecordLong)
	c := r.Connections()
	require.Len(t, c, 1)
	assert.EqualValues(t, 1, c[0].Calls, "replies are no calls")
	assert.Zero(t, c[0].InFlight)
	ended, cancel2 := context.WithCancel(t.Context())
	cancel2()
	assert.ErrorIs(t, peer.Reverse.Call(ended, newCallback(0)), context.Canceled)
}

// TestReverseEnds checks that calls to a client end with the connection, however
// it ends, and that later ones fail.
func TestReverseEnds(t *testing.T) {
	for name, end := range map[string]func(r *testServer, nc *net.TCPConn, p *Peer){
		"closed by the client": func(_ *testServer, nc *net.TCPConn, _ *Peer) { nc.Close() },
		"half closed":          func(_ *testServer, nc *net.TCPConn, _ *Peer) { _ = nc.CloseWrite() },
		"cut":                  func(_ *testServer, _ *net.TCPConn, p *Peer) { p.Cut(errors.New("enough")) },
		"shut down":            func(r *testServer, _ *net.TCPConn, _ *Peer) { go func() { _ = r.Shutdown(context.Background()) }() },
	} {
		t.Run(name, func(t *testing.T) {
			r, nc, peer := startReverse(t)
			var ends []<-chan error
			for range maxReverse {
				ends = append(ends, reverseCall(t.Context(), peer, newCallback(0)))
				readRecord(t, nc)
			}
			ends = append(ends, reverseCall(t.Context(), peer, newCallback(0))) // waits for its place
			end(r, nc, peer)
			for _, e := range ends {
				assert.ErrorIs(t, <-e, ErrClosed)
			}
			assert.ErrorIs(t, peer.Reverse.Call(t.Context(), newCallback(0)), ErrClosed)
			nc.Close()
		})
	}
}

// TestReverseStuck checks that a client that takes nothing does not keep a
// caller beyond the end of its context.
func TestReverseStuck(t *testing.T) {
	_, nc, peer := startReverse(t)
	require.NoError(t, nc.SetReadBuffer(4096))
	big := make([]byte, 1<<20)
	for i := range uint32(16) { // unread replies fill the buffers
		_, err := nc.Write(newRecord(echoCall(i, procEcho, big)))
		require.NoError(t, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	assert.ErrorIs(t, peer.Reverse.Call(ctx, newCallback(0)), context.DeadlineExceeded)
	nc.Close()
}

// TestReverseGivenUp checks that calls which were given up before a client that
// takes nothing has taken them are bounded, too.
func TestReverseGivenUp(t *testing.T) {
	_, nc, peer := startReverse(t)
	require.NoError(t, nc.SetReadBuffer(4096))
	big := make([]byte, 1<<20)
	for i := range uint32(16) {
		_, err := nc.Write(newRecord(echoCall(i, procEcho, big)))
		require.NoError(t, err)
	}
	for range 3 * maxReverse {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		assert.ErrorIs(t, peer.Reverse.Call(ctx, newCallback(0)), context.DeadlineExceeded)
		cancel()
	}
	q := &peer.Reverse.(*tcpReverse).conn.out
	n := 0
	q.mu.Lock()
	for _, cl := range q.waiting {
		if cl.reverse != nil {
			n++
		}
	}
	q.mu.Unlock()
	assert.LessOrEqual(t, n, maxReverse)
	nc.Close()
}

// TestReverseInCall checks that a call which waits for a reverse call, having
// stepped aside, gets the reply, and does not wait for ever when the client ends
// its side of the connection.
func TestReverseInCall(t *testing.T) {
	m := new(Mux)
	m.Register(testProg, 2, handlerFunc(func(ctx context.Context, c *Call, r *Reply) error {
		r.StepAside()
		x := newCallback(0)
		err := c.Peer.Reverse.Call(ctx, x)
		x.Release()
		if err != nil {
			assert.ErrorIs(t, err, ErrClosed)
			return ErrProcUnavail
		}
		return nil
	}))
	nc := startServer(t, &Server{Handler: m, Log: discardLogger()}).dialServer()
	for xid := range uint32(2 * maxCalls) {
		_, err := nc.Write(newRecord(newCallMessage(xid, testProg, 2, 1)))
		require.NoError(t, err)
		asked := readRecord(t, nc)
		if xid+1 == 2*maxCalls {
			require.NoError(t, nc.CloseWrite())
			assert.Equal(t, rpcmsg.AppendAccepted(nil, xid, rpcmsg.ProcUnavail), readRecord(t, nc))
			return
		}
		_, err = nc.Write(successRecord(binary.BigEndian.Uint32(asked)))
		require.NoError(t, err)
		assert.Equal(t, rpcmsg.AppendAccepted(nil, xid, rpcmsg.Success), readRecord(t, nc))
	}
}
