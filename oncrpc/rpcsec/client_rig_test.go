package rpcsec

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// A fakeInitiator makes a context with a fakeAcceptor.
type fakeInitiator struct {
	token   string
	rounds  int // more, before the acceptor answers
	answers []string
	closed  int
	life    time.Duration // the context's lifetime; 0: an hour

	make func(acceptor bool) gss.Context // as in the acceptor
}

func (i *fakeInitiator) Step(_ context.Context, answer []byte) ([]byte, gss.Context, error) {
	if answer != nil {
		i.answers = append(i.answers, string(answer))
	}
	switch {
	case len(i.answers) == i.rounds+1:
		if string(answer) != "yes "+i.token {
			return nil, nil, &gss.Error{Major: gss.DefectiveToken, Err: errFake}
		}
		if i.make != nil {
			return nil, i.make(false), nil
		}
		if i.life == 0 {
			i.life = time.Hour
		}
		return nil, newFakeContext(fakeKey(i.token), false, time.Now().Add(i.life)), nil
	case len(i.answers) > 0:
		return fmt.Appendf(nil, "round %d", len(i.answers)), nil, nil
	}
	return []byte(i.token), nil, nil
}

// Close counts.
func (i *fakeInitiator) Close() { i.closed++ }

// A fakeCaller is a Caller whose server is a function.
type fakeCaller struct {
	serve func(msg []byte) (reply []byte)

	mu    sync.Mutex
	xid   uint32
	calls [][]byte // messages of all transmissions

	tries func(xid uint32) int // transmissions of a call; nil: one
}

func (l *fakeCaller) Call(ctx context.Context, x *oncrpc.Exchange) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	l.mu.Lock()
	xid, tries := x.XID, 1
	if xid == 0 {
		l.xid++
		xid = l.xid
	}
	l.mu.Unlock()
	if l.tries != nil {
		tries = l.tries(xid)
	}
	var reply []byte
	for range tries {
		msg, item, tail, err := x.AppendMessage(nil, xid, "")
		if err != nil {
			return err
		}
		x.Sent()
		msg = append(xdr.AppendFixed(msg, item), tail...)
		l.mu.Lock()
		l.calls = append(l.calls, append([]byte(nil), msg...))
		l.mu.Unlock()
		if most := x.CallOverhead(0) + len(x.Args) + len(x.Item) + 3 + len(x.Tail); x.Signer != nil && len(msg) > most {
			return fmt.Errorf("a call of %d bytes is longer than %d", len(msg), most)
		}
		if got := l.serve(msg); got != nil {
			reply = got
		}
	}
	if reply == nil {
		return oncrpc.ErrClosed
	}
	overhead, _ := x.ReplyOverhead()
	if most := overhead + x.MaxResults + len(x.Sink) + 3; len(reply) > most {
		return fmt.Errorf("a reply of %d bytes is longer than %d", len(reply), most)
	}
	err := x.TakeReply(reply, xid)
	if err != nil {
		x.Results = xdr.Reader{} // as transports do
	}
	return err
}

// A testClient is a Client in front of a line to a server.
type testClient struct {
	*Client
	line       fakeCaller
	server     *testServer
	initiators []*fakeInitiator
	bindings   []string // from each attempt
	mu         sync.Mutex
	made       atomic.Int32
	rounds     int
	life       time.Duration
}

var tokens atomic.Int32

func newClientRig(t testing.TB, flavor uint32) *testClient {
	r := &testClient{server: newTestServer(t, ServerConfig{})}
	r.line.serve = r.server.sendMessage
	r.Client = NewClient(&r.line, r.newConfig(flavor))
	return r
}

func (r *testClient) newConfig(flavor uint32) ClientConfig {
	return ClientConfig{
		Flavor: flavor, Prog: testProg, Vers: testVers,
		Begin: func(_ context.Context, bindings []byte) (gss.Initiator, error) {
			i := &fakeInitiator{token: fmt.Sprintf("alice %d", tokens.Add(1)), rounds: r.rounds, life: r.life, make: r.server.acceptor.make}
			r.made.Add(1)
			r.mu.Lock()
			defer r.mu.Unlock()
			r.initiators, r.bindings = append(r.initiators, i), append(r.bindings, string(bindings))
			return i, nil
		},
	}
}

// newExchange returns a call with data.
func newExchange(proc uint32, data []byte) *oncrpc.Exchange {
	return &oncrpc.Exchange{
		Prog: testProg, Vers: testVers, Proc: proc, Args: appendWords(uint32(len(data))), Item: data,
		MaxResults: 12, Sink: make([]byte, len(data)),
	}
}

// checkEcho makes a call through a Caller, and checks its results.
func checkEcho(t testing.TB, c oncrpc.Caller, data []byte) {
	t.Helper()
	x := newExchange(procEcho, data)
	require.NoError(t, c.Call(t.Context(), x))
	assert.Equal(t, string(data), string(x.Results.Item(len(data))))
	assert.Equal(t, echoTail, appendWords(x.Results.Uint32()))
	assert.NoError(t, x.Results.Done())
	assert.Nil(t, x.Signer)
	x.Release()
}

// callMake makes a call of procMake, and returns its result.
func callMake(t testing.TB, c oncrpc.Caller) uint32 {
	t.Helper()
	x := newExchange(procMake, []byte("data"))
	require.NoError(t, c.Call(t.Context(), x))
	defer x.Release()
	return x.Results.Uint32()
}

// seqOf returns the sequence number of a call.
func seqOf(msg []byte) uint32 { return binary.BigEndian.Uint32(msg[40:]) }

// gssProc returns the gss_proc of a call.
func gssProc(msg []byte) uint32 { return binary.BigEndian.Uint32(msg[36:]) }

var flavors = []uint32{rpcmsg.AuthKrb5, rpcmsg.AuthKrb5i, rpcmsg.AuthKrb5p}
