package rpcsec

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss/krb5"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/rdma/rdmatest"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

const alice = "alice@TEST.EXAMPLE"

// A contextPair is the two ends of one context of Kerberos: a server, and the client's end as a
// server of its own, which takes the calls of the first.
type contextPair struct {
	fore, client *testServer
	line         fakeCaller
	fromServer   []byte
	fromClient   []byte
}

func newPair(t *testing.T, e krb5.Enctype) *contextPair {
	p := &contextPair{fore: newTestServer(t, ServerConfig{}), client: newTestServer(t, ServerConfig{})}
	p.fore.acceptor.make = newKerberosContext(t, e)
	require.NotNil(t, p.fore.sendMessage(initCall(1, "alice 0")))
	h := p.fore.contexts.largest[0].contexts.Front().Value.(*serverContext).handle
	k := &serverContext{Context: p.fore.acceptor.make(false), principal: gss.Principal{Name: []string{"server"}}, name: "server", expires: time.Now().Add(time.Hour)}
	require.True(t, p.client.contexts.add(k, fairshare.Name{}))
	p.fromServer, p.fromClient = h[:], k.handle[:]
	p.line.serve = p.client.sendMessage
	return p
}

// newBackContext returns the context for calls to the client.
func (p *contextPair) newBackContext(t *testing.T, service uint32) *BackContext {
	b := p.fore.Back(alice, p.fromServer, p.fromClient, service)
	require.NotNil(t, b)
	return b
}

// TestBack checks calls to a client in a context that the client has made, with the
// service, the client's handle, and sequence numbers of their own. With the tokens of
// Kerberos, the roles of initiator and acceptor stay (RFC 8881, Section 18.36.3).
//
// R8881-2.10.8.2-1.
func TestBack(t *testing.T) {
	for e := range sizes {
		for i, service := range services {
			t.Run(fmt.Sprintf("%v/%d", e, service), func(t *testing.T) {
				p := newPair(t, e)
				b := p.newBackContext(t, service)
				for n := range 3 {
					data := bytes.Repeat([]byte{byte(n)}, 100*n)
					x := newExchange(procEcho, data)
					require.NoError(t, b.Call(t.Context(), &p.line, x))
					assert.Equal(t, string(data), string(x.Results.Item(len(data))))
					x.Release()
					msg := p.line.calls[n]
					assert.EqualValues(t, 1<<30+n, seqOf(msg), "no call of the client's has the number")
					assert.Equal(t, service, binary.BigEndian.Uint32(msg[44:]))
					assert.Equal(t, p.fromClient, msg[52:68])
				}
				assert.EqualValues(t, 3, p.client.program.executed.Load())
				assert.Equal(t, flavors[i], p.client.program.seen.Flavor)
				assert.Zero(t, p.fore.program.executed.Load())
				mic := sizes[e].mic
				_, reply := b.Overhead()
				assert.Equal(t, []int{mic, 4 + 4 + 4 + 2*mic, 4 + 4 + sizes[e].wrap + 3 + mic}[i], reply)
			})
		}
	}
}

// TestBackForged checks that a client executes no call that was made to it by another than
// the server's end of the context, or changed, and that the server takes no results
// that were.
func TestBackForged(t *testing.T) {
	for _, service := range services[1:] {
		p := newPair(t, krb5.AES256SHA1)
		b := p.newBackContext(t, service)
		call := func() *oncrpc.Exchange {
			return &oncrpc.Exchange{Prog: testProg, Vers: testVers, Proc: procHead, Args: opaqueArgs([]byte("data")), MaxResults: 12}
		}
		p.line.serve = func([]byte) []byte { return nil }
		require.Error(t, b.Call(t.Context(), &p.line, call()))
		msg, u := p.line.calls[0], &testUser{handle: p.fromClient}
		for bit := range 8 * len(msg) {
			forged := bytes.Clone(msg)
			forged[bit/8] ^= 1 << (bit % 8)
			p.client.sendMessage(forged)
			p.client.forgetSequence(u)
			require.Zero(t, p.client.program.executed.Load(), "bit %d", bit)
		}

		// A call of the client itself comes back, under the handle of the other direction.
		own := signature{session: &session{Context: p.fore.acceptor.make(false), handle: p.fromClient, sequenceNumbers: newSequenceNumbers(0, firstBack, window)}, service: service}
		reflected, err := own.AppendCall(nil, 7, call())
		require.NoError(t, err)
		assert.Equal(t, rpcmsg.AuthCredProblem, authStat(p.client.sendMessage(reflected)))

		// The server has another handle than the client.
		p.line.serve = p.client.sendMessage
		other := p.fore.Back(alice, p.fromServer, p.fromServer, service)
		assert.ErrorIs(t, other.Call(t.Context(), &p.line, call()), rpcmsg.AuthCredProblem)
		assert.Zero(t, p.client.program.executed.Load())

		var reply []byte
		p.line.serve = func(msg []byte) []byte {
			reply = p.client.sendMessage(msg)
			return reply
		}
		x := call()
		require.NoError(t, b.Call(t.Context(), &p.line, x))
		x.Release()
		for at := range reply {
			p.line.serve = func(msg []byte) []byte {
				forged := p.client.sendMessage(msg)
				forged[at] ^= 1
				return forged
			}
			x := call()
			if err := b.Call(t.Context(), &p.line, x); err == nil {
				x.Release()
				assert.Less(t, len(reply)-4, at, "a byte that is not padding")
			}
		}
	}
}

// A peerReader is a Service that notes who has called.
type peerReader struct {
	next oncrpc.Service
	peer *oncrpc.Peer
}

func (p *peerReader) Serve(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
	p.peer = req.Peer
	return p.next.Serve(ctx, req, rep)
}

// TestBackAgain checks that a client which offers one context again, or for several
// sessions, is not called by a sequence number twice: it would drop the second call
// (RFC 2203, Section 5.3.3.1), and a reply to one call could pass for that to the other.
func TestBackAgain(t *testing.T) {
	p := newPair(t, krb5.AES256SHA1)
	first := p.newBackContext(t, serviceIntegrity)
	for n, b := range []*BackContext{first, p.newBackContext(t, serviceIntegrity), first, p.newBackContext(t, servicePrivacy)} {
		x := newExchange(procEcho, []byte("data"))
		require.NoError(t, b.Call(t.Context(), &p.line, x))
		x.Release()
		assert.EqualValues(t, firstBack+n, seqOf(p.line.calls[n]))
	}
	assert.EqualValues(t, 4, p.client.program.executed.Load())
	assert.Zero(t, p.client.Stats().Dropped)
}

// TestBackRDMA checks calls to a client over its own connection, in the reverse direction of
// RFC 8167. oncrpc.TestReverseSigned is the same for TCP.
func TestBackRDMA(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, krb5.AES256SHA384)
		d := &tapDialer{t: t, l: rdmatest.Listen(t)}
		h := &peerReader{next: p.fore}
		s := &rpcrdma.Server{Handler: h, Log: discardLogger()}
		served := make(chan error, 1)
		go func() { served <- s.Serve(d.l) }()
		line, err := rpcrdma.Dial(t.Context(), d, "server", rpcrdma.ClientConfig{Conn: rpcrdma.ClientConnConfig{Backchannel: p.client}, Log: discardLogger()})
		require.NoError(t, err)
		null := oncrpc.Exchange{Prog: testProg, Vers: testVers, MaxResults: 4}
		require.NoError(t, line.Call(t.Context(), &null))
		null.Release()
		for i, service := range services {
			b := p.newBackContext(t, service)
			for n := range 3 {
				args := opaqueArgs(bytes.Repeat([]byte{7}, 100*n))
				x := oncrpc.Exchange{Prog: testProg, Vers: testVers, Proc: procHead, Args: args, MaxResults: len(args)}
				require.NoError(t, b.Call(t.Context(), h.peer.Reverse, &x))
				assert.Equal(t, string(args), string(x.Results.Rest()))
				x.Release()
			}
			assert.Equal(t, flavors[i], p.client.program.seen.Flavor)
		}
		assert.EqualValues(t, 9, p.client.program.executed.Load())
		line.Close()
		require.NoError(t, s.Shutdown(t.Context()))
		require.NoError(t, <-served)
	})
}

// TestBackOf checks whose contexts are found, by which handles (R8881-18.33.3-2).
func TestBackOf(t *testing.T) {
	off := false
	r := newTestServer(t, ServerConfig{Off: func() bool { return off }})
	u := r.establishContext("alice 1")
	find := func(principal string, fore []byte, n int, service uint32) bool {
		return r.Back(principal, fore, make([]byte, n), service) != nil
	}
	for _, tt := range []struct {
		name  string
		found bool
		want  bool
	}{
		{"it", find(alice, u.handle, 16, 1), true},
		{"no handle of the client's", find(alice, u.handle, 0, 3), true},
		{"the longest", find(alice, u.handle, maxHandle, 2), true},
		{"one that no credential can have", find(alice, u.handle, maxHandle+1, 2), false},
		{"another's", find("bob@TEST.EXAMPLE", u.handle, 16, 1), false},
		{"nobody's", find("", u.handle, 16, 1), false},
		{"an unknown handle", find(alice, make([]byte, handleLen), 16, 1), false},
		{"an empty handle", find(alice, nil, 16, 1), false},
		{"no service", find(alice, u.handle, 16, 0), false},
		{"an undefined service", find(alice, u.handle, 16, 4), false},
	} {
		assert.Equal(t, tt.want, tt.found, tt.name)
	}
	off = true
	assert.False(t, find(alice, u.handle, 16, 1), "no mechanism")
	list, _ := r.Contexts(1)
	assert.Zero(t, list[0].Calls)
}

// TestBackDenied checks that a context which the client does not have any more is not used
// again: the client may have another, or has to add one (RFC 2203, Section 5.3.3.3).
func TestBackDenied(t *testing.T) {
	for stat, left := range map[rpcmsg.AuthError]bool{rpcmsg.AuthCredProblem: false, rpcmsg.AuthCtxProblem: false, rpcmsg.AuthTooWeak: true} {
		p := newPair(t, krb5.AES256SHA1)
		b := p.newBackContext(t, serviceIntegrity)
		p.line.serve = func(msg []byte) []byte {
			return rpcmsg.AppendAuthError(nil, binary.BigEndian.Uint32(msg), stat)
		}
		require.ErrorIs(t, b.Call(t.Context(), &p.line, newExchange(procEcho, nil)), stat)
		assert.Equal(t, left, b.Left() > 0, stat)
	}
}

// TestBackKeepsNothing checks that a context which has made room for another one is not kept
// by a session of its client: the bound of contexts, and of their keys, holds.
func TestBackKeepsNothing(t *testing.T) {
	r := newTestServer(t, ServerConfig{MaxContexts: 1})
	b := r.Back(alice, r.establishContext("alice 1").handle, nil, 1)
	call, reply := b.Overhead()
	r.establishContext("alice 2")
	runtime.GC()
	assert.Nil(t, b.context.Value())
	assert.Zero(t, b.Left())
	assert.ErrorIs(t, b.Call(t.Context(), nil, newExchange(procEcho, nil)), errGone)
	c, l := b.Overhead()
	assert.Equal(t, [2]int{call, reply}, [2]int{c, l})
}

// TestBackLeft checks for how long a client can be called: as long as its ticket lasts,
// and the server has the context.
func TestBackLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTestServer(t, ServerConfig{})
		u := r.establishContext("alice 1")
		b := r.Back(alice, u.handle, nil, 1)
		assert.Equal(t, time.Hour, b.Left())
		numbers := b.liveContext().back.get()
		numbers.next = maxSeq - 1
		assert.Zero(t, b.Left(), "no numbers")
		numbers.next = firstBack
		time.Sleep(time.Hour - time.Second)
		assert.Equal(t, time.Second, b.Left())
		time.Sleep(time.Second)
		assert.Zero(t, b.Left())

		u = r.establishContext("alice 2")
		b = r.Back(alice, u.handle, nil, 1)
		assert.NotZero(t, b.Left())
		u.seq++
		require.NotNil(t, r.sendMessage(u.newHeader(7, 0, procDestroy, u.seq, 1)))
		assert.Zero(t, b.Left())
	})
}
