package rpcsec

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// TestCreation checks the answers to creation calls.
func TestCreation(t *testing.T) {
	r := newTestServer(t, ServerConfig{})
	for _, tt := range []struct {
		name   string
		msg    []byte
		denied rpcmsg.AuthError
		stat   uint32
		major  gss.Major
	}{
		{"R2203-5.2.3.1-1 complete", initCall(1, "alice 1"), 0, 0, gss.Complete},
		{"R2203-5.2.3.1-2 broken token", initCall(1, "alice"), 0, 0, gss.DefectiveToken},
		{"token seen before", initCall(1, "alice 1"), 0, 0, gss.DuplicateToken},
		{"R2203-5.2.2-5 long token", initCall(1, "alice "+string(make([]byte, 64<<10-6))), 0, 0, gss.Complete},
		{"token too long", initCall(1, "alice "+string(make([]byte, 64<<10))), 0, rpcmsg.GarbageArgs, 0},
		{"no token", initCall(1, "")[:60], 0, rpcmsg.GarbageArgs, 0},
		{"bytes behind the token", append(initCall(1, "alice 2"), 0, 0, 0, 0), 0, rpcmsg.GarbageArgs, 0},
		{"R2203-5.2.2-3 service 9, sequence number of all ones", func() []byte {
			m := initCall(1, "alice 3")
			copy(m[40:], appendWords(0xffffffff, 9))
			return m
		}(), 0, 0, gss.Complete},
		{"R2203-5.2.3.2-2 INIT with a handle", appendWords(1, 0, 2, testProg, testVers, 0, 6, 24, 1, 1, 0, 0, 4, 0, 0, 0, 0), rpcmsg.AuthBadCred, 0, 0},
		{"R2203-5.2.3.2-2 CONTINUE_INIT of an unknown handle", appendWords(1, 0, 2, testProg, testVers, 0, 6, 24, 1, 2, 0, 0, 4, 0, 0, 0, 0), 0, 0, gss.NoContext},
		{"verifier", appendWords(1, 0, 2, testProg, testVers, 0, 6, 20, 1, 1, 0, 0, 0, 6, 0, 0), rpcmsg.AuthBadVerf, 0, 0},
		{"procedure 1", func() []byte { m := initCall(1, "alice 4"); m[23] = 1; return m }(), rpcmsg.AuthBadCred, 0, 0},
		{"version 2 of RPCSEC_GSS", func() []byte { m := initCall(1, "alice 4"); m[35] = 2; return m }(), rpcmsg.AuthRejectedCred, 0, 0},
		{"R2203-5.2.3.2-1 unknown program", func() []byte { m := initCall(1, "alice 4"); m[15]++; return m }(), 0, rpcmsg.ProgUnavail, 0},
		{"R2203-5-1 unknown version", func() []byte { m := initCall(1, "alice 4"); m[19]++; return m }(), 0, rpcmsg.ProgMismatch, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			reply := r.sendMessage(tt.msg)
			assert.Equal(t, tt.denied, authStat(reply))
			switch {
			case tt.denied != 0:
			case tt.stat != 0:
				want := rpcmsg.AppendAccepted(nil, 1, tt.stat)
				if tt.stat == rpcmsg.ProgMismatch {
					want = rpcmsg.AppendProgMismatch(nil, 1, testVers, testVers)
				}
				assert.Equal(t, want, reply)
			default:
				x := xdr.NewReader(tt.msg[60:])
				_, major := readInit(t, reply, x.String(1<<20))
				assert.Equal(t, tt.major, major)
			}
			assert.Zero(t, r.program.executed.Load(), "control messages are not dispatched")
		})
	}
	assert.EqualValues(t, 3, r.Stats().Made)
	assert.EqualValues(t, 3, r.Stats().Refused)
	small := &oncrpc.Request{Msg: initCall(1, "alice 9"), Peer: &r.peer, MaxReply: 99, MaxWhole: 99}
	assert.Equal(t, rpcmsg.AppendAccepted(nil, 1, rpcmsg.SystemErr), r.serveRequest(small))
	assert.Equal(t, 3, r.Stats().Contexts, "the client could not use it")
}

// TestMajors checks the numbers of RFC 2203, Appendix A.
func TestMajors(t *testing.T) {
	for major, want := range map[gss.Major]uint32{
		gss.Complete: 0, gss.ContinueNeeded: 1, gss.DuplicateToken: 2, gss.OldToken: 4, gss.BadMech: 0x10000, gss.BadName: 0x20000,
		gss.BadBindings: 0x40000, gss.BadMIC: 0x60000, gss.NoCred: 0x70000, gss.NoContext: 0x80000, gss.DefectiveToken: 0x90000,
		gss.DefectiveCredential: 0xa0000, gss.CredentialsExpired: 0xb0000, gss.ContextExpired: 0xc0000, gss.Failure: 0xd0000,
	} {
		res := initResult{major: major}
		assert.Equal(t, appendWords(0, want, 0, 0, 0), res.appendTo(nil), "R2203-A-1")
	}
}

// TestFairAccepts checks that one party's many tokens do not keep another's from
// being accepted.
func TestFairAccepts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTestServer(t, ServerConfig{})
		r.acceptor.gate = make(chan struct{})
		mallory := oncrpc.Peer{Addr: netip.MustParseAddrPort("192.0.2.66:700")}
		create := func(ctx context.Context, peer *oncrpc.Peer, i int) {
			var rep oncrpc.Reply
			r.Serve(ctx, &oncrpc.Request{Msg: initCall(1, fmt.Sprint("a ", i)), Peer: peer, MaxReply: 4096, MaxWhole: 4096}, &rep)
		}
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 1000 {
			go create(ctx, &mallory, i)
		}
		synctest.Wait()
		assert.Equal(t, maxAccepts/2, r.acceptor.waiting)
		for i := range 4 {
			go create(t.Context(), &r.peer, 1000+i)
		}
		synctest.Wait()
		assert.Equal(t, maxAccepts/2+4, r.acceptor.waiting)
		cancel() // mallory's connections end
		synctest.Wait()
		close(r.acceptor.gate)
		synctest.Wait()
		assert.Equal(t, maxAccepts/2+4, r.Stats().Contexts)
	})
}

// TestAcceptsYield checks that a processor is given to others before each token: a
// goroutine that wants it gets it many times while one party's tokens are accepted.
func TestAcceptsYield(t *testing.T) {
	const senders, each = maxAccepts, 50
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	r := newTestServer(t, ServerConfig{})
	var all sync.WaitGroup
	for i := range senders {
		all.Go(func() {
			for j := range each {
				var rep oncrpc.Reply
				r.Serve(t.Context(), &oncrpc.Request{Msg: initCall(1, fmt.Sprintf("%d %d", i, j)), Peer: &r.peer, MaxReply: 4096, MaxWhole: 4096}, &rep)
			}
		})
	}
	over, turns := make(chan bool), 0
	go func() { all.Wait(); close(over) }()
	for {
		runtime.Gosched()
		select {
		case <-over:
			assert.Greater(t, turns, each/2)
			return
		default:
			turns++
		}
	}
}

// TestBindings checks that a token from inside of TLS is judged with the bindings of that
// connection (R9289-4.2.1-2), and that contexts are made there as anywhere
// (R9289-4.2.1-1).
func TestBindings(t *testing.T) {
	r := newTestServer(t, ServerConfig{})
	r.establishContext("alice 1")
	assert.Nil(t, r.acceptor.bindings)
	r.peer.Security = &oncrpc.Security{Binding: []byte("32 bytes that only both ends know")}
	r.establishContext("alice 2")
	assert.Equal(t, "tls-exporter:32 bytes that only both ends know", string(r.acceptor.bindings))
	r.peer.Security = &oncrpc.Security{}
	r.establishContext("alice 3")
	assert.Nil(t, r.acceptor.bindings)
}
