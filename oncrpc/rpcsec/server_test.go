package rpcsec

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

var services = []uint32{serviceNone, serviceIntegrity, servicePrivacy}

// TestServices checks calls of all services with results of all forms and sizes:
// the program sees plain arguments and the caller, and nothing of an encrypted
// call or reply is unencrypted.
//
// R7530-3-1, R7530-3.2.1.1-1, R8881-2.2.1.1-1, R8881-2.2.1.1.1.1-1.
func TestServices(t *testing.T) {
	r := newTestServer(t, ServerConfig{})
	u := r.establishContext("alice 1")
	xid := uint32(100)
	for _, service := range services {
		for _, n := range []int{0, 1, 2, 3, 4, 5, 100, 5000, 70001, 1<<20 - 700} {
			for _, proc := range []uint32{procHead, procEcho, procMore} {
				if proc == procMore && n > 1<<19-1000 {
					continue
				}
				t.Run(fmt.Sprintf("%d/%d/%d", service, proc, n), func(t *testing.T) {
					xid++
					data := bytes.Repeat([]byte("plain data"), n/10+1)[:n]
					msg := u.newCall(xid, proc, service, opaqueArgs(data))
					if service == servicePrivacy && n >= 100 {
						assert.NotContains(t, string(msg), "plain data")
					}
					reply := r.sendMessage(msg)
					if service == servicePrivacy && n >= 100 {
						assert.NotContains(t, string(reply), "plain data", "R2203-5.3.2.3-1")
					}
					stat, results := u.checkReply(reply, xid, u.seq, service)
					require.EqualValues(t, rpcmsg.Success, stat)
					want := opaqueArgs(data)
					switch proc {
					case procEcho:
						want = append(want, echoTail...)
					case procMore:
						want = append(append(want, want...), echoTail...)
					}
					assert.True(t, bytes.Equal(want, results), "R2203-5.3.2.1-1, R2203-5.3.2.2-1")
					assert.Equal(t, service == serviceNone, r.program.mappable, "no mapping is signed")
					assert.Equal(t, rpcmsg.Cred{
						Flavor: 390002 + service, UID: 1001, GID: 100, GIDs: []uint32{7, 8}, Principal: "alice@TEST.EXAMPLE",
					}, r.program.seen, "R2203-5.2.1-1, R2203-6-1")
				})
			}
		}
	}
	for _, n := range r.Stats().Calls {
		assert.NotZero(t, n)
	}
}

// TestNull checks that gss_proc DATA with procedure 0 is an ordinary NULL.
func TestNull(t *testing.T) {
	r := newTestServer(t, ServerConfig{})
	u := r.establishContext("alice 1")
	for _, service := range services {
		stat, results := u.checkReply(r.sendMessage(u.newCall(7, 0, service, nil)), 7, u.seq, service)
		assert.Zero(t, stat, "R2203-5-2")
		assert.Empty(t, results)
	}
}

// TestPasses checks that calls of other flavors pass unchanged.
func TestPasses(t *testing.T) {
	r := newTestServer(t, ServerConfig{})
	msg := append(appendWords(7, 0, 2, testProg, testVers, procHead, 0, 0, 0, 0), opaqueArgs([]byte("data"))...)
	assert.Equal(t, append(rpcmsg.AppendAccepted(nil, 7, rpcmsg.Success), opaqueArgs([]byte("data"))...), r.sendMessage(msg))
	assert.True(t, r.program.mappable)
	assert.Nil(t, r.sendMessage(msg[:11]))
	assert.Equal(t, Stats{}, r.Stats())
}

// TestAnonymous checks the callers without a user, and those whose user cannot be
// found at present.
func TestAnonymous(t *testing.T) {
	r := newTestServer(t, ServerConfig{})
	u := r.establishContext("host/client@x 1")
	stat, _ := u.checkReply(r.sendMessage(u.newCall(7, procHead, serviceNone, opaqueArgs(nil))), 7, u.seq, serviceNone)
	assert.Zero(t, stat)
	assert.Equal(t, rpcmsg.Cred{
		Flavor: 390003, UID: rpcmsg.Nobody, GID: rpcmsg.Nobody, Principal: `host/client\@x@TEST.EXAMPLE`, Anonymous: true,
	}, r.program.seen, "R4121-P-1")
	u = r.establishContext("broken 1")
	stat, _ = u.checkReply(r.sendMessage(u.newCall(7, procHead, servicePrivacy, opaqueArgs(nil))), 7, u.seq, servicePrivacy)
	assert.Zero(t, stat)
	assert.True(t, r.program.seen.Anonymous && r.program.seen.Unknown)
}

// TestEndWhileMapping checks that a call whose connection ends while its user is looked
// up is not executed, nor logged as trouble with users: the client sends it again.
func TestEndWhileMapping(t *testing.T) {
	r := newTestServer(t, ServerConfig{})
	u := r.establishContext("alice 1")
	var log bytes.Buffer
	ctx, cancel := context.WithCancelCause(t.Context())
	r.log = slog.New(slog.NewTextHandler(&log, nil))
	r.cfg.Map = func(ctx context.Context, _ netip.Addr, _ gss.Principal) (User, bool, error) {
		cancel(io.EOF)
		return User{}, false, context.Cause(ctx)
	}
	msg := u.newCall(7, procHead, serviceNone, opaqueArgs(nil))
	var rep oncrpc.Reply
	assert.False(t, r.Serve(ctx, &oncrpc.Request{Msg: msg, Peer: &r.peer, MaxReply: 4096, MaxWhole: 4096}, &rep))
	assert.Empty(t, r.program.seen.Principal)
	assert.Empty(t, log.String())
}

// TestBodyItem checks that a signed or encrypted call with a data item apart is
// not executed, and that one whose header is signed is.
func TestBodyItem(t *testing.T) {
	r := newTestServer(t, ServerConfig{})
	u := r.establishContext("alice 1")
	for _, service := range services {
		for _, places := range []bool{false, true} {
			msg := u.newCall(7, procHead, service, opaqueArgs([]byte("item")))
			head := len(msg) - 4
			req := &oncrpc.Request{Msg: msg[:head:head], Item: []byte("item"), ItemPos: head, Peer: &r.peer, MaxReply: 4096, MaxWhole: 4096}
			if places { // the message is whole, and signed or encrypted as it is
				body := len(u.newHeader(7, procHead, procData, u.seq, service))
				at := body + map[uint32]int{serviceNone: 4, serviceIntegrity: 4 + 4 + 4, servicePrivacy: 4 + fakeBefore + 4 + 4}[service]
				req.Msg, req.Item = msg, nil
				req.Places = []xdr.Place{{Pos: at, Len: 4}}
			}
			stat, results := u.checkReply(r.serveRequest(req), 7, u.seq, serviceNone)
			if service == serviceNone {
				assert.Zero(t, stat, "R2203-RDMA-2")
				assert.Equal(t, opaqueArgs([]byte("item")), results)
			} else {
				assert.EqualValues(t, rpcmsg.GarbageArgs, stat, "R2203-RDMA-1")
			}
		}
	}
}

// TestRetry checks that the retry of an executed call, with a new sequence number,
// gets the kept reply under a verifier of its own.
func TestRetry(t *testing.T) {
	for _, service := range services {
		r := newTestServer(t, ServerConfig{})
		u, other := r.establishContext("alice 1"), r.establishContext("bob 1")
		for range 3 {
			stat, results := u.checkReply(r.sendMessage(u.newCall(7, procMake, service, opaqueArgs([]byte("data")))), 7, u.seq, service)
			assert.Zero(t, stat)
			assert.Equal(t, appendWords(1), results, "R2203-5.3.3.1-6")
		}
		u2 := r.establishContext("alice 2")
		_, results := u2.checkReply(r.sendMessage(u2.newCall(7, procMake, service, opaqueArgs([]byte("data")))), 7, u2.seq, service)
		assert.Equal(t, appendWords(1), results, "in a new context of the same principal")
		_, results = other.checkReply(r.sendMessage(other.newCall(7, procMake, service, opaqueArgs([]byte("data")))), 7, other.seq, service)
		assert.Equal(t, appendWords(2), results, "another's call")
	}
}

// TestDestroy checks the end of a context by its client.
func TestDestroy(t *testing.T) {
	r := newTestServer(t, ServerConfig{})
	u := r.establishContext("alice 1")
	forged := u.newHeader(7, 0, procDestroy, 1, serviceIntegrity)
	forged[len(forged)-5] ^= 1
	assert.Equal(t, rpcmsg.AuthCredProblem, authStat(r.sendMessage(forged)), "R2203-5.4-1")
	assert.Equal(t, rpcmsg.AuthBadCred, authStat(r.sendMessage(u.newHeader(7, procHead, procDestroy, 1, serviceNone))))
	unknown := appendWords(7, 0, 2, testProg+1, testVers, 0, 6, uint32(20+len(u.handle)), 1, procDestroy, 2, 1)
	unknown = xdr.AppendOpaque(unknown, u.handle)
	mic, _ := u.ctx.AppendMIC(nil, [][]byte{unknown})
	stat, _ := u.checkReply(r.sendMessage(xdr.AppendOpaque(append(unknown, appendWords(6)...), mic)), 7, 2, serviceNone)
	assert.EqualValues(t, rpcmsg.ProgUnavail, stat)
	for i, service := range services {
		u := r.establishContext(fmt.Sprint("alice ", 10+i))
		destroy := u.newHeader(8, 0, procDestroy, 5, service)
		stat, results := u.checkReply(r.sendMessage(bytes.Clone(destroy)), 8, 5, serviceNone)
		assert.Zero(t, stat, "R2203-5.4-1")
		assert.Empty(t, results)
		assert.Equal(t, rpcmsg.AuthCredProblem, authStat(r.sendMessage(u.newCall(9, procHead, serviceNone, opaqueArgs(nil)))), "R2203-5.4-1, forgotten")
	}
	assert.EqualValues(t, 3, r.Stats().Destroyed)
	assert.Equal(t, 1, r.Stats().Contexts)
	assert.Zero(t, r.program.executed.Load())
}

// TestExpiry checks that a context lives five minutes longer than its credential.
func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTestServer(t, ServerConfig{})
		r.acceptor.life = time.Hour
		u := r.establishContext("alice 1")
		time.Sleep(time.Hour + 5*time.Minute)
		assert.Zero(t, authStat(r.sendMessage(u.newCall(7, procHead, serviceNone, opaqueArgs(nil)))))
		time.Sleep(time.Nanosecond)
		assert.Equal(t, rpcmsg.AuthCtxProblem, authStat(r.sendMessage(u.newCall(7, procHead, serviceNone, opaqueArgs(nil)))), "R2203-5.3.3.3-2, R4121-P-2")
		assert.Equal(t, rpcmsg.AuthCredProblem, authStat(r.sendMessage(u.newCall(7, procHead, serviceNone, opaqueArgs(nil)))), "forgotten")
		assert.EqualValues(t, 1, r.Stats().Expired)
	})
}

// TestConcurrent checks many calls of one context at once.
func TestConcurrent(t *testing.T) {
	const calls = 2000
	r := newTestServer(t, ServerConfig{})
	u := r.establishContext("alice 1")
	var msgs [][]byte
	for i := range calls {
		msgs = append(msgs, u.newCall(uint32(i), 0, services[i%3], nil))
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(calls, func(i, j int) { msgs[i], msgs[j] = msgs[j], msgs[i] })
	next := make(chan []byte, calls)
	for _, msg := range msgs {
		next <- msg
	}
	close(next)
	done := make(chan bool)
	for range 8 {
		go func() {
			for msg := range next {
				assert.NotNil(t, r.sendMessage(msg))
			}
			done <- true
		}()
	}
	for range 8 {
		<-done
	}
	assert.Zero(t, r.Stats().Dropped, "R2203-5.3.3.1-5")
}
