package rpcsec

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// TestSealingFails checks that a reply is never sent unprotected.
func TestSealingFails(t *testing.T) {
	for _, service := range services {
		for made := range int32(3) {
			for _, proc := range []uint32{procHead, procEcho} {
				r := newTestServer(t, ServerConfig{})
				u := r.establishContext("alice 1")
				u.server.broken.Store(made + 1)
				reply := r.sendMessage(u.newCall(7, proc, service, opaqueArgs([]byte("data"))))
				switch {
				case made == 0:
					assert.Equal(t, rpcmsg.AuthCtxProblem, authStat(reply), "R2203-5.3.3.4-1")
				case made == 1 && service != serviceNone:
					assert.Nil(t, reply, "R2203-5.3.3.4-1")
					assert.EqualValues(t, 1, r.cut.Load())
				default:
					assert.NotNil(t, reply)
				}
			}
		}
	}
	r := newTestServer(t, ServerConfig{})
	r.acceptor.gate = make(chan struct{})
	close(r.acceptor.gate)
	u := r.establishContext("alice 1")
	u.server.broken.Store(1)
	stat := authStat(r.sendMessage(u.newHeader(7, 0, procDestroy, 1, serviceNone)))
	assert.Equal(t, rpcmsg.AuthCtxProblem, stat)
}

// TestRoom checks that a reply is never longer than the transport can carry, and
// that the program has all the room that is left.
func TestRoom(t *testing.T) {
	r := newTestServer(t, ServerConfig{})
	u := r.establishContext("alice 1")
	for _, service := range services {
		for _, proc := range []uint32{procHead, procEcho} {
			for n := range 8 {
				const space = 1000
				req := func(data int) *oncrpc.Request {
					return &oncrpc.Request{
						Msg: u.newCall(7, proc, service, opaqueArgs(make([]byte, data))), Peer: &r.peer,
						MaxReply: space + n, MaxWhole: space + n,
					}
				}
				require.NotNil(t, r.serveRequest(req(0)))
				assert.Equal(t, space+n, rpcmsg.AcceptedLen+r.program.maxReply+r.program.growth)
				fits := (r.program.maxReply - 4) &^ 3
				if proc == procEcho {
					fits -= len(echoTail)
				}
				reply := r.serveRequest(req(fits))
				stat, _ := u.checkReply(reply, 7, u.seq, service)
				assert.Zero(t, stat)
				assert.LessOrEqual(t, len(reply), space+n)
				assert.Greater(t, len(reply), space+n-8)
				stat, _ = u.checkReply(r.serveRequest(req(fits+1)), 7, u.seq, serviceNone)
				assert.NotZero(t, stat)
			}
		}
	}
}

// TestTransportMemory checks that the transport counts the whole memory of a
// protected reply.
func TestTransportMemory(t *testing.T) {
	r := newTestServer(t, ServerConfig{})
	u := r.establishContext("alice 1")
	for _, service := range services {
		held := 0
		req := &oncrpc.Request{Msg: u.newCall(7, procHead, service, opaqueArgs(make([]byte, 5000))), Peer: &r.peer, MaxReply: 1 << 20, MaxWhole: 1 << 20}
		rep := oncrpc.Reply{}
		rep.Hold = func(n int) { held = n; rep.Head = append(make([]byte, 0, n+rpcmsg.AcceptedLen), rep.Head...) }
		require.True(t, r.Serve(t.Context(), req, &rep))
		assert.LessOrEqual(t, len(rep.Head), held+rpcmsg.AcceptedLen)
		_, results := u.checkReply(rep.Head, 7, u.seq, service)
		assert.Equal(t, opaqueArgs(make([]byte, 5000)), results)
		rep.Hold(1)
		assert.Equal(t, 1, held, "the transport's own again")
	}
}
