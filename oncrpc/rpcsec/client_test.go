package rpcsec

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"sync"
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

// initCallOf is initCall of a client, which names a service: the server of nfs-ganesha
// denies the call otherwise.
func initCallOf(service, xid uint32, token string) []byte {
	b := initCall(xid, token)
	binary.BigEndian.PutUint32(b[44:], service)
	return b
}

// TestClientCalls checks a client's calls: each byte is as RFC 2203 has it.
//
// R8881-2.2.1.1-1, R8881-2.2.1.1.1.1-1.
func TestClientCalls(t *testing.T) {
	for i, flavor := range flavors {
		r := newClientRig(t, flavor)
		for _, n := range []int{0, 1, 2, 3, 4, 5, 5000} {
			checkEcho(t, r, bytes.Repeat([]byte{7}, n))
		}
		token := r.initiators[0].token
		require.Len(t, r.line.calls, 8)
		assert.Equal(t, initCallOf(services[i], 1, token), r.line.calls[0], "R2203-5.2.2-1, R2203-5.1-2")
		k := r.server.contexts.largest[0].contexts.Front().Value.(*serverContext)
		u := &testUser{r: r.server, ctx: newFakeContext(fakeKey(token), false, time.Time{}), handle: k.handle[:]}
		for j, n := range []int{0, 1, 2, 3, 4, 5, 5000} {
			seq := uint32(j)
			want := u.newHeader(uint32(j+2), procEcho, procData, seq, services[i])
			want = append(want, u.newBody(seq, services[i], opaqueArgs(bytes.Repeat([]byte{7}, n)))...)
			assert.Equal(t, want, r.line.calls[j+1], "R2203-5.3.1-1, R2203-5.3.1-3, R2203-5.3.2.1-1, R2203-5.3.2.2-1, R2203-5.3.2.3-1, R2203-5-3")
		}
		assert.Equal(t, rpcmsg.AuthKrb5+uint32(i), r.server.program.seen.Flavor)
	}
}

// TestRetransmission checks that each transmission has a number of its own, and
// that the reply to an earlier one is good too.
func TestRetransmission(t *testing.T) {
	for _, flavor := range flavors {
		r := newClientRig(t, flavor)
		r.line.tries = func(xid uint32) int { return 1 + int(xid+1)%3 }
		var first []byte
		r.line.serve = func(msg []byte) []byte {
			reply := r.server.sendMessage(msg)
			if gssProc(msg) == procData && first == nil {
				first = reply
				return nil
			}
			return reply
		}
		r.line.tries = func(xid uint32) int {
			if xid == 1 {
				return 1
			}
			return 3
		}
		for i := range uint32(5) {
			first = nil
			assert.Equal(t, i+1, callMake(t, r), "one execution")
		}
		last := -1
		for _, msg := range r.line.calls[1:] {
			assert.Greater(t, int(seqOf(msg)), last, "R2203-5.3.1-2")
			last = int(seqOf(msg))
		}
		assert.EqualValues(t, 5, r.server.program.executed.Load())
		assert.Zero(t, r.server.Stats().Dropped)

		r.line.serve = func(msg []byte) []byte { // the slow server answers the first try alone
			if reply := r.server.sendMessage(msg); first == nil {
				first = reply
			}
			return first
		}
		first = nil
		assert.EqualValues(t, 6, callMake(t, r), "R2203-5.3.3.1-7")
		r.line.tries = func(uint32) int { return maxNumbers + 1 }
		first = nil
		assert.ErrorIs(t, r.Call(t.Context(), newExchange(procMake, []byte("data"))), ErrReply, "too long ago")
	}
}

// TestForgedReplies checks that a reply is not used unless the server's end of the
// context has made it for the call.
func TestForgedReplies(t *testing.T) {
	for i, flavor := range flavors {
		r := newClientRig(t, flavor)
		data := []byte("data")
		checkEcho(t, r, data)
		var forge func(reply []byte) []byte
		r.line.serve = func(msg []byte) []byte {
			if reply := r.server.sendMessage(msg); gssProc(msg) == procData {
				return forge(reply)
			} else {
				return reply
			}
		}
		forged := func(what string, f func(reply []byte) []byte) {
			t.Helper()
			forge = f
			x := newExchange(procEcho, data)
			err := r.Call(t.Context(), x)
			require.Error(t, err, what)
			assert.Zero(t, x.Results.Left(), what)
			assert.Nil(t, x.Lent)
		}
		size := 0
		forge = func(reply []byte) []byte { size = len(reply); return reply }
		checkEcho(t, r, data)
		plain := rpcmsg.AcceptedLen + opaqueLen(fakeMIC) - 4 // what service none signs
		if flavor != rpcmsg.AuthKrb5 {
			plain = size
		}
		padding := map[int]bool{20 + fakeMIC: true, 21 + fakeMIC: true}
		for n := range xdr.Pad(fakeMIC) {
			padding[size-1-n] = padding[size-1-n] || flavor == rpcmsg.AuthKrb5i
		}
		for n := range xdr.Pad(fakeBefore + 16 + fakeAfter) {
			padding[size-1-n] = padding[size-1-n] || flavor == rpcmsg.AuthKrb5p
		}
		for bit := range 8 * plain {
			if !padding[bit/8] {
				forged("R2203-5.3.3.2-2, flipped", func(b []byte) []byte { b[bit/8] ^= 1 << (bit % 8); return b })
			}
		}
		for n := range plain {
			forged("cut", func(b []byte) []byte { return b[:n] })
		}
		key := r.initiators[len(r.initiators)-1].token
		server := newFakeContext(fakeKey(key), true, time.Time{})
		answer := func(b []byte, ctx *fakeContext, seq uint32, flavor uint32) []byte {
			mic, _ := ctx.AppendMIC(nil, [][]byte{appendWords(seq)})
			return append(xdr.AppendOpaque(append(bytes.Clone(b[:12]), appendWords(flavor)...), mic), appendWords(0)...)
		}
		last := func() uint32 { return seqOf(r.line.calls[len(r.line.calls)-1]) }
		results := append(opaqueArgs(data), echoTail...)
		sealed := func(ctx *fakeContext, seq uint32) []byte {
			u := testUser{ctx: ctx}
			return u.newBody(seq, services[i], results)
		}
		forged("no verifier", func(b []byte) []byte {
			return append(append(bytes.Clone(b[:12]), appendWords(0, 0, 0)...), sealed(server, last())...)
		})
		forged("another number", func(b []byte) []byte { return append(answer(b, server, last()-1, 6), sealed(server, last())...) })
		forged("another flavour", func(b []byte) []byte { return append(answer(b, server, last(), 1), sealed(server, last())...) })
		other := newFakeContext(fakeKey("mallory"), true, time.Time{})
		forged("another's", func(b []byte) []byte { return append(answer(b, other, last(), 6), sealed(other, last())...) })
		client := newFakeContext(fakeKey(key), false, time.Time{})
		forged("reflected", func(b []byte) []byte { return append(answer(b, client, last(), 6), sealed(client, last())...) })
		if flavor != rpcmsg.AuthKrb5 {
			forged("R2203-5.3.3.2-3, another number inside", func(b []byte) []byte {
				return append(answer(b, server, last(), 6), sealed(server, last()-1)...)
			})
			forged("plain results", func(b []byte) []byte { return append(answer(b, server, last(), 6), results...) })
		}
		forged("unsigned error", func(b []byte) []byte { return append(bytes.Clone(b[:12]), appendWords(0, 0, rpcmsg.GarbageArgs)...) })
		forge = func(reply []byte) []byte { return reply }
		checkEcho(t, r, data)
	}
}

// TestVerifiedErrors checks that an error of the server is believed if its verifier
// is good.
func TestVerifiedErrors(t *testing.T) {
	for _, flavor := range flavors {
		r := newClientRig(t, flavor)
		assert.ErrorIs(t, r.Call(t.Context(), newExchange(99, nil)), oncrpc.ErrProcUnavail)
		x := newExchange(procEcho, nil)
		x.Vers++
		var mismatch *oncrpc.ReplyError
		require.ErrorAs(t, r.Call(t.Context(), x), &mismatch)
		assert.Equal(t, oncrpc.ReplyError{Stat: rpcmsg.ProgMismatch, Low: testVers, High: testVers}, *mismatch)
	}
}

// TestRefresh checks that a call whose context the server does not know is made in
// another context, and that no other denial does that.
func TestRefresh(t *testing.T) {
	r := newClientRig(t, rpcmsg.AuthKrb5i)
	checkEcho(t, r, []byte("data"))
	restarted := newTestServer(t, ServerConfig{})
	r.line.serve = restarted.sendMessage
	checkEcho(t, r, []byte("data"))
	assert.EqualValues(t, 2, r.made.Load(), "R2203-5.3.3.3-3")
	assert.EqualValues(t, 1, restarted.program.executed.Load())
	for stat, made := range map[rpcmsg.AuthError]int32{
		rpcmsg.AuthCredProblem: 2, rpcmsg.AuthCtxProblem: 2, // R2203-5.3.3.3-3: bounded
		rpcmsg.AuthTooWeak: 0, rpcmsg.AuthBadCred: 0, rpcmsg.AuthRejectedCred: 0, rpcmsg.AuthBadVerf: 0, rpcmsg.AuthRejectedVerf: 0,
	} {
		r.line.serve = restarted.sendMessage
		checkEcho(t, r, nil)
		before := r.made.Load()
		r.line.serve = func(msg []byte) []byte {
			if gssProc(msg) == procData {
				return rpcmsg.AppendAuthError(nil, binary.BigEndian.Uint32(msg), stat)
			}
			return restarted.sendMessage(msg)
		}
		assert.ErrorIs(t, r.Call(t.Context(), newExchange(procEcho, nil)), stat)
		assert.Equal(t, before+made, r.made.Load(), "R2203-5.3.3.3-4: %v", stat)
	}
}

// TestRefreshKeepsXID checks that a call which the server has executed, but whose reply was
// lost with the connection and the context, is not executed again: it is repeated in
// another context with its XID. Another call has another XID.
func TestRefreshKeepsXID(t *testing.T) {
	for _, flavor := range flavors {
		r := newClientRig(t, flavor)
		checkEcho(t, r, nil)
		executed := false
		r.line.serve = func(msg []byte) []byte {
			if gssProc(msg) == procData && !executed { // the reply is lost, and the context with it
				executed = true
				require.NotNil(t, r.server.sendMessage(bytes.Clone(msg)))
				r.server.contexts.remove(r.server.contexts.acquire(msg[52:68]))
			}
			return r.server.sendMessage(msg)
		}
		assert.EqualValues(t, 2, callMake(t, r))
		assert.EqualValues(t, 2, r.made.Load())
		assert.EqualValues(t, 2, r.server.program.executed.Load(), "the echo, and the call once")
		assert.EqualValues(t, 3, callMake(t, r))

		x := newExchange(procMake, []byte("data"))
		r.line.serve = func(msg []byte) []byte {
			return rpcmsg.AppendAuthError(nil, binary.BigEndian.Uint32(msg), rpcmsg.AuthTooWeak)
		}
		require.Error(t, r.Call(t.Context(), x))
		assert.Equal(t, r.line.xid, x.XID, "for a caller that repeats the call")
	}
}

// TestExpired checks that a context is replaced when its credential ends.
func TestExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newClientRig(t, rpcmsg.AuthKrb5)
		r.life = time.Minute
		checkEcho(t, r, nil)
		time.Sleep(time.Minute - 1)
		checkEcho(t, r, nil)
		assert.EqualValues(t, 1, r.made.Load())
		time.Sleep(time.Nanosecond)
		checkEcho(t, r, nil)
		assert.EqualValues(t, 2, r.made.Load())
		r.current.next = 1<<30 - 1 // calls to the client have the numbers from there on
		checkEcho(t, r, nil)
		assert.EqualValues(t, 3, r.made.Load(), "R2203-5.3.1-2")
	})
}

// TestFastClock checks that calls share a context for a moment if its credential has
// ended by this host's clock: not each makes another.
func TestFastClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newClientRig(t, rpcmsg.AuthKrb5)
		r.life = -time.Minute
		for range 10 {
			checkEcho(t, r, nil)
		}
		assert.EqualValues(t, 1, r.made.Load())
		time.Sleep(minContextLife)
		checkEcho(t, r, nil)
		assert.EqualValues(t, 2, r.made.Load())
	})
}

// TestCreationFails checks that no data is sent if the context is not complete, or
// the server is not the right one.
func TestCreationFails(t *testing.T) {
	for _, tt := range []struct {
		name  string
		reply func(r *testClient, msg []byte) []byte
		want  error
	}{
		{"R2203-5.2.3.1.1-1 another answer", func(r *testClient, msg []byte) []byte {
			b := r.server.sendMessage(msg)
			b[len(b)-5] ^= 1
			return b
		}, errFake},
		{"R2203-5.2.3.1-3 window not signed", func(_ *testClient, msg []byte) []byte {
			res := initResult{handle: []byte("h"), window: 9, token: []byte("yes " + string(msg[64:64+binary.BigEndian.Uint32(msg[60:])]))}
			return res.appendTo(rpcmsg.AppendAccepted(nil, 1, 0))
		}, errWindow},
		{"R2203-5.2.3.1-3 another window", func(r *testClient, msg []byte) []byte {
			b := r.server.sendMessage(msg)
			b[len(b)-4-opaqueLen(len(r.initiators[0].token)+4)+3] ^= 1 // seq_window
			return b
		}, errWindow},
		{"no answer to the token", func(*testClient, []byte) []byte {
			res := initResult{handle: []byte("h"), window: 9}
			return res.appendTo(rpcmsg.AppendAccepted(nil, 1, 0))
		}, errUnproved},
		{"R2203-5.2.3.1-2 refused", func(*testClient, []byte) []byte {
			res := initResult{major: gss.CredentialsExpired, minor: 3}
			return res.appendTo(rpcmsg.AppendAccepted(nil, 1, 0))
		}, nil},
		{"R2203-5.2.3.2-3 a server without RPCSEC_GSS", func(*testClient, []byte) []byte {
			return rpcmsg.AppendAuthError(nil, 1, rpcmsg.AuthRejectedCred)
		}, rpcmsg.AuthRejectedCred},
		{"a handle longer than credentials can be", func(*testClient, []byte) []byte {
			res := initResult{handle: make([]byte, 400-5*4+1), window: 9}
			return res.appendTo(rpcmsg.AppendAccepted(nil, 1, 0))
		}, xdr.ErrLong},
		{"broken result", func(*testClient, []byte) []byte { return append(rpcmsg.AppendAccepted(nil, 1, 0), 0, 0, 0, 0) }, xdr.ErrShort},
		{"connection lost", func(*testClient, []byte) []byte { return nil }, oncrpc.ErrClosed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newClientRig(t, rpcmsg.AuthKrb5p)
			r.line.serve = func(msg []byte) []byte { return tt.reply(r, msg) }
			err := r.Call(t.Context(), newExchange(procEcho, nil))
			var e *gss.Error
			if tt.want != nil {
				assert.ErrorIs(t, err, tt.want)
				assert.Equal(t, tt.want == errFake, errors.As(err, &e), "a caller takes it for the server's refusal")
			} else {
				require.ErrorAs(t, err, &e)
				assert.Equal(t, []uint32{uint32(gss.CredentialsExpired), 3}, []uint32{uint32(e.Major), e.Minor})
			}
			assert.Len(t, r.line.calls, 1, "no data, and no second attempt")
			r.line.serve, r.line.xid = r.server.sendMessage, 0
			checkEcho(t, r, nil)
		})
	}
	r := newClientRig(t, rpcmsg.AuthKrb5)
	r.Client.cfg.Begin = func(context.Context, []byte) (gss.Initiator, error) { return nil, errFake }
	assert.ErrorIs(t, r.Call(t.Context(), newExchange(procEcho, nil)), errFake)
}

// TestCreationNotResent checks that a token is sent once: another attempt, of the
// same call unless there were many, has another token.
func TestCreationNotResent(t *testing.T) {
	r := newClientRig(t, rpcmsg.AuthKrb5)
	r.line.tries = func(uint32) int { return 2 }
	assert.ErrorIs(t, r.Call(t.Context(), newExchange(procEcho, nil)), ErrResent)
	assert.EqualValues(t, 1+maxRestarts, r.made.Load())
	sent := make(map[string]bool)
	for _, i := range r.initiators {
		sent[i.token] = true
		assert.Equal(t, 1, i.closed)
	}
	assert.Len(t, sent, 1+maxRestarts)

	last := r.line.xid + 3
	r.line.tries = func(xid uint32) int {
		if xid < last {
			return 2
		}
		return 1
	}
	checkEcho(t, r, nil)
	assert.EqualValues(t, 1+maxRestarts+3, r.made.Load(), "the call itself goes on")

	r = newClientRig(t, rpcmsg.AuthKrb5)
	ctx, cancel := context.WithCancel(t.Context())
	r.line.tries = func(uint32) int { cancel(); return 2 }
	assert.ErrorIs(t, r.Call(ctx, newExchange(procEcho, nil)), ErrResent)
	assert.EqualValues(t, 1, r.made.Load(), "no call waits")
}

// TestOldToken checks that a token that has waited for a server that was away is not
// sent: the server would refuse the time in it. The call goes on with a new one.
func TestOldToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newClientRig(t, rpcmsg.AuthKrb5)
		away := maxTokenAge + time.Second
		r.Client.next = callerFunc(func(ctx context.Context, x *oncrpc.Exchange) error {
			time.Sleep(away)
			away = maxTokenAge
			return r.line.Call(ctx, x)
		})
		checkEcho(t, r, nil)
		assert.EqualValues(t, 2, r.made.Load())
		assert.Len(t, r.line.calls, 2)
		assert.Equal(t, initCallOf(serviceNone, 2, r.initiators[1].token), r.line.calls[0])
	})
}

// TestRounds checks a mechanism with more tokens: they go by CONTINUE_INIT, with
// the handle. All have the service of the calls.
func TestRounds(t *testing.T) {
	r := newClientRig(t, rpcmsg.AuthKrb5i)
	r.rounds = 2
	var asked []string
	r.line.serve = func(msg []byte) []byte {
		if gssProc(msg) != procInit && gssProc(msg) != procContinueInit {
			return r.server.sendMessage(msg)
		}
		x := xdr.NewReader(msg)
		h, err := rpcmsg.ReadCall(&x)
		require.NoError(t, err)
		assert.Zero(t, h.Verf.Flavor, "R2203-5.2.2-1")
		assert.EqualValues(t, serviceIntegrity, binary.BigEndian.Uint32(msg[44:]))
		c, err := readCredential(h.Cred.Body)
		require.NoError(t, err)
		asked = append(asked, string(c.handle)+" "+string(x.Opaque(100)))
		if len(asked) > 2 {
			return r.server.sendMessage(initCall(h.XID, r.initiators[0].token))
		}
		res := initResult{handle: []byte("handle"), major: gss.ContinueNeeded, token: []byte("more")}
		return res.appendTo(rpcmsg.AppendAccepted(nil, h.XID, 0))
	}
	checkEcho(t, r, nil)
	assert.Equal(t, []string{" " + r.initiators[0].token, "handle round 1", "handle round 2"}, asked, "R2203-5.2.2-2, R2203-5.2.3.1-4")

	r = newClientRig(t, rpcmsg.AuthKrb5)
	r.rounds = 100
	r.line.serve = func(msg []byte) []byte {
		res := initResult{handle: []byte("handle"), major: gss.ContinueNeeded, token: []byte("more")}
		return res.appendTo(rpcmsg.AppendAccepted(nil, binary.BigEndian.Uint32(msg), 0))
	}
	assert.ErrorIs(t, r.Call(t.Context(), newExchange(procEcho, nil)), errRounds)
}

// TestOneContext checks that many calls at once make one context, that they share
// the reason if it cannot be made, and that the end of the call that makes it does
// not concern the others.
func TestOneContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newClientRig(t, rpcmsg.AuthKrb5)
		gate := make(chan error)
		begin := r.Client.cfg.Begin
		r.Client.cfg.Begin = func(ctx context.Context, bindings []byte) (gss.Initiator, error) {
			select {
			case err := <-gate:
				if err != nil {
					return nil, err
				}
				return begin(ctx, bindings)
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		errs := make(chan error, 20)
		start := func(ctx context.Context, n int) {
			for range n {
				go func() { errs <- r.Call(ctx, newExchange(0, nil)) }()
			}
			synctest.Wait()
		}
		start(t.Context(), 10)
		gate <- errFake
		for range 10 {
			assert.ErrorIs(t, <-errs, errFake)
		}
		ctx, cancel := context.WithCancel(t.Context())
		start(ctx, 1)
		start(t.Context(), 9)
		cancel()
		assert.ErrorIs(t, <-errs, context.Canceled)
		gate <- nil
		for range 9 {
			assert.True(t, isGarbageArgs(<-errs))
		}
		assert.EqualValues(t, 1, r.made.Load())
	})
}

// isGarbageArgs reports whether a server has taken a call of procedure 0, which has
// no results, or refused its arguments.
func isGarbageArgs(err error) bool { return err == nil || errors.Is(err, oncrpc.ErrGarbageArgs) }

// TestWindow checks that no more calls are in flight than the server's window has room
// for.
func TestWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 4
		r := newClientRig(t, rpcmsg.AuthKrb5)
		gate := make(chan bool)
		var mu sync.Mutex
		under, peak := 0, 0
		r.line.serve = func(msg []byte) []byte {
			if gssProc(msg) == procInit {
				token := msg[64 : 64+binary.BigEndian.Uint32(msg[60:])]
				server := newFakeContext(fakeKey(string(token)), true, time.Time{})
				res := initResult{handle: []byte("h"), window: most, token: []byte("yes " + string(token))}
				b := rpcmsg.AppendReply(nil, binary.BigEndian.Uint32(msg), 0)
				mic, _ := server.AppendMIC(nil, [][]byte{appendWords(most)})
				return res.appendTo(append(xdr.AppendOpaque(append(b, appendWords(6)...), mic), appendWords(0)...))
			}
			mu.Lock()
			under++
			peak = max(peak, under)
			mu.Unlock()
			<-gate
			mu.Lock()
			under--
			mu.Unlock()
			return rpcmsg.AppendAuthError(nil, binary.BigEndian.Uint32(msg), rpcmsg.AuthTooWeak)
		}
		errs := make(chan error)
		for range 20 {
			go func() { errs <- r.Call(t.Context(), newExchange(0, nil)) }()
		}
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		go func() { errs <- r.Call(ctx, newExchange(0, nil)) }()
		synctest.Wait()
		cancel()
		assert.ErrorIs(t, <-errs, context.Canceled, "a call that waits can end")
		for range 20 {
			gate <- true
			assert.ErrorIs(t, <-errs, rpcmsg.AuthTooWeak)
		}
		assert.Equal(t, most, peak, "R2203-5.2.3.1-5")
	})
}

// TestLateNumber checks that the numbers of others do not pass the window by while
// a transmission is being made.
func TestLateNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newSequenceNumbers(0, firstBack, 4)
		assert.EqualValues(t, 0, k.takeNumber())
		for want := range uint32(3) {
			n := k.takeNumber()
			assert.Equal(t, want+1, n)
			k.markSent(n)
			k.markSent(n)
		}
		got := make(chan uint32)
		go func() { got <- k.takeNumber() }()
		synctest.Wait()
		select {
		case n := <-got:
			t.Fatalf("%d while 0 may still come", n)
		default:
		}
		k.markSent(0)
		assert.EqualValues(t, 4, <-got)
	})
}

// TestClose checks that a client ends its context at the server.
func TestClose(t *testing.T) {
	r := newClientRig(t, rpcmsg.AuthKrb5p)
	r.Close(t.Context())
	assert.Empty(t, r.line.calls)
	r = newClientRig(t, rpcmsg.AuthKrb5p)
	checkEcho(t, r, nil)
	assert.Equal(t, 1, r.server.Stats().Contexts)
	r.Close(t.Context())
	assert.Zero(t, r.server.Stats().Contexts, "R2203-5.4-1")
	last := r.line.calls[len(r.line.calls)-1]
	assert.EqualValues(t, procDestroy, gssProc(last))
	assert.EqualValues(t, 1, seqOf(last))
	assert.ErrorIs(t, r.Call(t.Context(), newExchange(0, nil)), errClosed)
}

// TestSignFails checks that a call that cannot be signed or encrypted is not sent.
func TestSignFails(t *testing.T) {
	for i, flavor := range flavors {
		for made := range int32(2) {
			r := newClientRig(t, flavor)
			checkEcho(t, r, nil)
			r.current.Context.(*fakeContext).broken.Store(made + 1)
			sent := len(r.line.calls)
			err := r.Call(t.Context(), newExchange(procEcho, nil))
			if made == 1 && i == 0 {
				require.NoError(t, err, "one signature is enough")
				continue
			}
			assert.ErrorIs(t, err, errFake)
			assert.Len(t, r.line.calls, sent)
		}
	}
}
