package rpcsec

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
)

// TestRefusals is the table of refusals of data calls.
func TestRefusals(t *testing.T) {
	body := func(u *testUser, service uint32, change func(b []byte) []byte) []byte {
		u.seq++
		return append(u.newHeader(7, procHead, procData, u.seq, service), change(u.newBody(u.seq, service, opaqueArgs([]byte("data"))))...)
	}
	same := func(b []byte) []byte { return b }
	for _, tt := range []struct {
		name   string
		call   func(u *testUser) []byte
		denied rpcmsg.AuthError
		stat   uint32 // if it is not denied
	}{
		{"R2203-5.1-1 version 0", func(u *testUser) []byte { m := u.newCall(7, procHead, 1, nil); m[35] = 0; return m }, rpcmsg.AuthRejectedCred, 0},
		{"R2203-5.1-1 R7530-3-1 version 2", func(u *testUser) []byte { m := u.newCall(7, procHead, 1, nil); m[35] = 2; return m }, rpcmsg.AuthRejectedCred, 0},
		{"R2203-5.1-1 version 3", func(u *testUser) []byte { m := u.newCall(7, procHead, 1, nil); m[35] = 3; return m }, rpcmsg.AuthRejectedCred, 0},
		{"R2203-5.1-1 version 9", func(u *testUser) []byte { m := u.newCall(7, procHead, 1, nil); m[32] = 9; return m }, rpcmsg.AuthRejectedCred, 0},
		{"R2203-5.3.3.3-5 gss_proc 4", func(u *testUser) []byte { return u.newHeader(7, 0, 4, 1, 1) }, rpcmsg.AuthBadCred, 0},
		{"R2203-5.3.3.3-5 gss_proc 9", func(u *testUser) []byte { return u.newHeader(7, 0, 9, 1, 1) }, rpcmsg.AuthBadCred, 0},
		{"R2203-5.3.3.3-5 service 0", func(u *testUser) []byte { return u.newHeader(7, procHead, 0, 1, 0) }, rpcmsg.AuthBadCred, 0},
		{"R2203-5.3.3.3-5 service 4", func(u *testUser) []byte { return u.newHeader(7, procHead, 0, 1, 4) }, rpcmsg.AuthBadCred, 0},
		{"R2203-5.3.3.3-5 no body", func(*testUser) []byte { return appendWords(7, 0, 2, testProg, testVers, procHead, 6, 0, 0, 0) }, rpcmsg.AuthBadCred, 0},
		{"R2203-5.3.3.3-5 short body", func(*testUser) []byte {
			return appendWords(7, 0, 2, testProg, testVers, procHead, 6, 12, 1, 0, 1, 0, 0)
		}, rpcmsg.AuthBadCred, 0},
		{"R2203-5.3.3.3-5 handle longer than the body", func(u *testUser) []byte { m := u.newCall(7, procHead, 1, nil); m[51] = 17; return m }, rpcmsg.AuthBadCred, 0},
		{"R2203-5.3.3.3-5 bytes behind the handle", func(u *testUser) []byte { m := u.newCall(7, procHead, 1, nil); m[51] = 12; return m }, rpcmsg.AuthBadCred, 0},
		{"R2203-5-4 handle of 380 bytes", func(u *testUser) []byte { u.handle = make([]byte, 380); return u.newCall(7, procHead, 1, nil) }, rpcmsg.AuthCredProblem, 0},
		{"R2203-5-4 handle of 400 bytes", func(u *testUser) []byte { u.handle = make([]byte, 400); return u.newCall(7, procHead, 1, nil) }, rpcmsg.AuthBadCred, 0},
		{"R2203-5.3.3.3-1 unknown handle", func(u *testUser) []byte { u.handle[0] ^= 1; return u.newCall(7, procHead, 1, nil) }, rpcmsg.AuthCredProblem, 0},
		{"empty handle", func(u *testUser) []byte { u.handle = nil; return u.newCall(7, procHead, 1, nil) }, rpcmsg.AuthCredProblem, 0},
		{"R2203-5.3.3.3-1 wrong MIC", func(u *testUser) []byte { m := u.newCall(7, procHead, 1, nil); m[len(m)-4] ^= 1; return m }, rpcmsg.AuthCredProblem, 0},
		{"R2203-5.3.3.3-1 another's MIC", func(u *testUser) []byte {
			u.ctx = newFakeContext(fakeKey("mallory"), false, time.Time{})
			return u.newCall(7, procHead, 1, nil)
		}, rpcmsg.AuthCredProblem, 0},
		{"reflected MIC", func(u *testUser) []byte {
			u.ctx = newFakeContext(fakeKey("alice 1"), true, time.Time{})
			return u.newCall(7, procHead, 1, nil)
		}, rpcmsg.AuthCredProblem, 0},
		{"empty MIC", func(u *testUser) []byte {
			m := u.newHeader(7, procHead, procData, 1, 1)
			return append(m[:6*4+credentialLen(u.handle)], appendWords(6, 0)...)
		}, rpcmsg.AuthCredProblem, 0},
		{"verifier of another flavour", func(u *testUser) []byte {
			m := u.newHeader(7, procHead, procData, 1, 1)
			return append(m[:6*4+credentialLen(u.handle)], appendWords(0, 0)...)
		}, rpcmsg.AuthBadVerf, 0},
		{"R2203-5.3.3.3-2 sequence number 2^31", func(u *testUser) []byte { u.seq = maxSeq - 1; return u.newCall(7, procHead, 1, nil) }, rpcmsg.AuthCtxProblem, 0},
		{"denied by the program", func(u *testUser) []byte { return u.newCall(7, procDeny, 3, opaqueArgs(nil)) }, rpcmsg.AuthTooWeak, 0},
		{"R2203-5.3.3.2-1 PROC_UNAVAIL", func(u *testUser) []byte { return u.newCall(7, 99, 3, opaqueArgs(nil)) }, 0, rpcmsg.ProcUnavail},
		{"bad arguments", func(u *testUser) []byte { return u.newCall(7, procHead, 2, nil) }, 0, rpcmsg.GarbageArgs},
		{"R2203-5.3.3.4-2 integrity, flipped", func(u *testUser) []byte {
			return body(u, 2, func(b []byte) []byte { b[9] ^= 1; return b })
		}, 0, rpcmsg.GarbageArgs},
		{"R2203-5.3.3.4-2 privacy, flipped", func(u *testUser) []byte {
			return body(u, 3, func(b []byte) []byte { b[len(b)-5] ^= 1; return b })
		}, 0, rpcmsg.GarbageArgs},
		{"integrity, cut", func(u *testUser) []byte { return body(u, 2, func(b []byte) []byte { return b[:len(b)-4] }) }, 0, rpcmsg.GarbageArgs},
		{"integrity, nothing", func(u *testUser) []byte { return body(u, 2, func([]byte) []byte { return nil }) }, 0, rpcmsg.GarbageArgs},
		{"privacy, nothing", func(u *testUser) []byte { return body(u, 3, func([]byte) []byte { return nil }) }, 0, rpcmsg.GarbageArgs},
		{"privacy, empty token", func(u *testUser) []byte { return body(u, 3, func([]byte) []byte { return appendWords(0) }) }, 0, rpcmsg.GarbageArgs},
		{"privacy, token without a message", func(u *testUser) []byte {
			return body(u, 3, func([]byte) []byte {
				before, after := make([]byte, fakeBefore), make([]byte, fakeAfter)
				_ = u.ctx.Wrap(before, nil, after)
				return opaqueArgs(append(before, after...))
			})
		}, 0, rpcmsg.GarbageArgs},
		{"integrity, plain arguments", func(u *testUser) []byte { return body(u, 2, func([]byte) []byte { return opaqueArgs([]byte("data")) }) }, 0, rpcmsg.GarbageArgs},
		{"bytes behind", func(u *testUser) []byte { return body(u, 3, func(b []byte) []byte { return append(b, 0, 0, 0, 0) }) }, 0, rpcmsg.GarbageArgs},
		{"R2203-5.3.3.1-8 integrity, another number inside", func(u *testUser) []byte {
			return body(u, 2, func([]byte) []byte { return u.newBody(u.seq-1, 2, opaqueArgs(nil)) })
		}, 0, rpcmsg.GarbageArgs},
		{"R2203-5.3.3.1-8 privacy, another number inside", func(u *testUser) []byte {
			return body(u, 3, func([]byte) []byte { return u.newBody(u.seq+1, 3, opaqueArgs(nil)) })
		}, 0, rpcmsg.GarbageArgs},
		{"another service inside", func(u *testUser) []byte {
			return body(u, 3, func([]byte) []byte { return u.newBody(u.seq, 2, opaqueArgs(nil)) })
		}, 0, rpcmsg.GarbageArgs},
		{"none, executed", func(u *testUser) []byte { return body(u, 1, same) }, 0, rpcmsg.Success},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newTestServer(t, ServerConfig{})
			u := r.establishContext("alice 1")
			u.seq = 10
			msg := tt.call(u)
			reply := r.sendMessage(msg)
			require.NotNil(t, reply)
			assert.Equal(t, tt.denied, authStat(reply))
			if tt.denied == 0 {
				service := uint32(serviceNone)
				if tt.stat == rpcmsg.Success {
					service = binary.BigEndian.Uint32(msg[44:])
				}
				stat, results := u.checkReply(reply, 7, u.seq, service)
				assert.Equal(t, tt.stat, stat)
				assert.Equal(t, tt.stat != rpcmsg.Success, len(results) == 0, "not wrapped")
			}
			ran := tt.denied == 0 && tt.stat == rpcmsg.Success || tt.denied == rpcmsg.AuthTooWeak || tt.stat == rpcmsg.ProcUnavail
			assert.Equal(t, ran, r.program.executed.Load() == 1, "R2203-5.3.3.1-1")
			assert.Zero(t, r.cut.Load())
		})
	}
}

// TestDropped checks that a call below the window, or seen before, gets no answer
// and costs the connection.
func TestDropped(t *testing.T) {
	r := newTestServer(t, ServerConfig{})
	u := r.establishContext("alice 1")
	send := func(seq uint32) bool {
		u.seq = seq - 1
		return r.sendMessage(u.newCall(7, procHead, serviceIntegrity, opaqueArgs(nil))) != nil
	}
	u.seq = ^uint32(0)
	assert.NotNil(t, r.sendMessage(u.newCall(7, procHead, serviceNone, opaqueArgs(nil))), "R2203-5.3.3.1-4, 0 first")
	for _, seq := range []uint32{5, 3, 4, 1, 5000} {
		assert.True(t, send(seq), "R2203-5.3.3.1-4")
	}
	assert.Zero(t, r.cut.Load())
	assert.False(t, send(5000), "R2203-5.3.3.1-3, seen")
	assert.EqualValues(t, 1, r.cut.Load())
	assert.False(t, send(5000-2048), "R2203-5.3.3.1-3, below")
	assert.True(t, send(5000-2047), "the lowest")
	assert.False(t, send(5000-2047))
	assert.EqualValues(t, 3, r.cut.Load())
	assert.EqualValues(t, 3, r.Stats().Dropped)

	u.seq = 4999
	again := u.newCall(7, procHead, serviceNone, opaqueArgs(nil))
	again[len(again)-10] ^= 1
	assert.Nil(t, r.sendMessage(again))
	assert.Zero(t, r.Stats().BadMICs, "R2203-7.2-1, not even verified")

	u.seq = 100000
	forged := u.newCall(7, procHead, serviceNone, opaqueArgs(nil))
	forged[len(forged)-10] ^= 1
	assert.Equal(t, rpcmsg.AuthCredProblem, authStat(r.sendMessage(forged)))
	assert.True(t, send(4999), "R2203-5.3.3.1-2, the forged number has not moved the window")
}

// TestOvertaken checks that of two copies of a call at once, both under
// verification, one is executed.
func TestOvertaken(t *testing.T) {
	r := newTestServer(t, ServerConfig{})
	u := r.establishContext("alice 1")
	msg := u.newCall(7, procHead, serviceNone, opaqueArgs(nil))
	again := bytes.Clone(msg)
	u.server.verifying = func() { assert.NotNil(t, r.sendMessage(again)) }
	assert.Nil(t, r.sendMessage(msg), "R2203-5.3.3.1-3")
	assert.EqualValues(t, 1, r.program.executed.Load())
	assert.EqualValues(t, 1, r.cut.Load())
}

// TestReplayed checks that recorded calls are never executed again, whatever the
// order.
func TestReplayed(t *testing.T) {
	const calls = 10000
	r := newTestServer(t, ServerConfig{})
	u := r.establishContext("alice 1")
	var recorded [][]byte
	for i := range uint32(calls) {
		msg := u.newCall(i, procHead, services[i%3], opaqueArgs([]byte("data")))
		recorded = append(recorded, bytes.Clone(msg))
		require.NotNil(t, r.sendMessage(msg))
	}
	require.EqualValues(t, calls, r.program.executed.Load())
	rand.New(rand.NewPCG(1, 2)).Shuffle(calls, func(i, j int) { recorded[i], recorded[j] = recorded[j], recorded[i] })
	for _, msg := range recorded {
		if r.sendMessage(msg) != nil {
			t.Fatal("an answer")
		}
	}
	assert.EqualValues(t, calls, r.program.executed.Load())
	assert.EqualValues(t, calls, r.cut.Load())
}

// TestFlipped checks that a call with any bit flipped is not executed.
func TestFlipped(t *testing.T) {
	for _, service := range services[1:] {
		r := newTestServer(t, ServerConfig{})
		u := r.establishContext("alice 1")
		u.seq = 100
		msg := u.newCall(7, procMake, service, opaqueArgs([]byte("data")))
		behind := 6*4 + credentialLen(u.handle) + 4 + opaqueLen(fakeMIC)
		padding := []int{behind - 2, behind - 1, len(msg) - 2, len(msg) - 1} // the verifier's and the signature's
		if service == servicePrivacy {
			padding = []int{behind - 2, behind - 1, len(msg) - 1}
		}
		for bit := range 8 * len(msg) {
			if slices.Contains(padding, bit/8) {
				continue // it is part of nothing
			}
			b := bytes.Clone(msg)
			b[bit/8] ^= 1 << (bit % 8)
			reply := r.sendMessage(b)
			if bit/8 >= behind {
				assert.Equal(t, rpcmsg.AppendAccepted(nil, 7, rpcmsg.GarbageArgs)[20:], reply[len(reply)-4:], "bit %d", bit)
				r.forgetSequence(u) // its sequence number is used
			}
			require.Zero(t, r.program.executed.Load(), "bit %d", bit)
		}
		for _, n := range []int{0, 4, 11, 12, 27, 28, 40, 52, 68, 76, 100} {
			r.sendMessage(bytes.Clone(msg[:n]))
		}
		assert.Zero(t, r.program.executed.Load())
		assert.NotNil(t, r.sendMessage(bytes.Clone(msg)), "R2203-5.3.1-3")
		assert.EqualValues(t, 1, r.program.executed.Load())
	}
}

// forgetSequence makes the server forget the sequence numbers of a context.
func (r *testServer) forgetSequence(u *testUser) {
	k := r.contexts.acquire(u.handle)
	k.received.mu.Lock()
	k.received.started, k.received.last = false, 0
	clear(k.received.seen[:])
	k.received.mu.Unlock()
	r.contexts.release(k)
}
