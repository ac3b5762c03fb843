package rpcsec

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss/krb5"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// sizes are those of Kerberos's tokens, in bytes: a signature, and what a Wrap token
// adds to its message.
var sizes = map[krb5.Enctype]struct{ key, mic, wrap int }{
	krb5.AES128SHA1: {16, 28, 60}, krb5.AES256SHA1: {32, 28, 60}, krb5.AES128SHA256: {16, 32, 64}, krb5.AES256SHA384: {32, 40, 72},
}

// newKerberosContext makes an end of a context.
func newKerberosContext(t testing.TB, e krb5.Enctype) func(acceptor bool) gss.Context {
	return func(acceptor bool) gss.Context {
		c, err := krb5.NewContext(krb5.Establishment{
			Key:            krb5.Key{Enctype: e, Value: bytes.Repeat([]byte{7}, sizes[e].key)},
			AcceptorSubkey: true, Acceptor: acceptor, Expires: time.Now().Add(time.Hour),
		})
		require.NoError(t, err)
		return c
	}
}

// TestKerberos checks client and server with the tokens of Kerberos: calls and replies
// are as long as announced, and nothing is unencrypted with privacy.
//
// R7530-3.2.1-1, R8881-2.2.1.1.1.2.1-1.
func TestKerberos(t *testing.T) {
	for e := range sizes {
		for i, flavor := range flavors {
			t.Run(fmt.Sprintf("%v/%d", e, flavor), func(t *testing.T) {
				r := newClientRig(t, flavor)
				r.server.acceptor.make = newKerberosContext(t, e)
				for _, n := range []int{0, 1, 2, 3, 4, 5, 300, 5000, 1<<20 - 700} {
					data := bytes.Repeat([]byte("plain data"), n/10+1)[:n]
					var reply []byte
					r.line.serve = func(msg []byte) []byte {
						reply = r.server.sendMessage(msg)
						return reply
					}
					r.line.calls = nil
					checkEcho(t, r, data)
					msg := r.line.calls[len(r.line.calls)-1]
					call, replySize := 24+28+16+8+sizes[e].mic, 24+sizes[e].mic
					plain := 4 + n + xdr.Pad(n)
					extra := 0
					switch services[i] {
					case serviceIntegrity:
						extra = 4 + 4 + 4 + sizes[e].mic
					case servicePrivacy:
						extra = 4 + 4 + sizes[e].wrap
						assert.False(t, n >= 300 && bytes.Contains(msg, []byte("plain data")))
					}
					assert.Len(t, msg, call+plain+extra)
					assert.LessOrEqual(t, replySize+plain+len(echoTail)+extra, len(reply)+3, "R2203-RDMA-4")
				}
			})
		}
	}
}

// TestTokensOutOfOrder checks that calls arrive in any order, though a mechanism
// numbers its tokens.
func TestTokensOutOfOrder(t *testing.T) {
	r := newClientRig(t, 0)
	r.server.acceptor.make = newKerberosContext(t, krb5.AES256SHA1)
	require.NotNil(t, r.server.sendMessage(initCall(1, "alice 0")))
	handle := r.server.contexts.largest[0].contexts.Front().Value.(*serverContext).handle
	k := &session{Context: r.server.acceptor.make(false), handle: handle[:], sequenceNumbers: newSequenceNumbers(0, firstBack, window)}
	var msgs [][]byte
	for i := range uint32(300) {
		s := signature{session: k, service: services[i%3]}
		x := oncrpc.Exchange{Prog: testProg, Vers: testVers, Proc: procHead, Args: opaqueArgs([]byte("data"))}
		msg, err := s.AppendCall(nil, i, &x)
		require.NoError(t, err)
		s.Sent()
		msgs = append(msgs, msg)
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(msgs), func(i, j int) { msgs[i], msgs[j] = msgs[j], msgs[i] })
	for _, msg := range msgs {
		assert.NotNil(t, r.server.sendMessage(msg), "R2203-5.2.2-4")
	}
	assert.EqualValues(t, len(msgs), r.server.program.executed.Load())
}

// TestKerberosFlipped checks that no call with a flipped bit is executed, with the
// tokens of Kerberos.
func TestKerberosFlipped(t *testing.T) {
	for _, service := range services[1:] {
		r := newClientRig(t, 0)
		r.server.acceptor.make = newKerberosContext(t, krb5.AES256SHA384)
		require.NotNil(t, r.server.sendMessage(initCall(1, "alice 0")))
		handle := r.server.contexts.largest[0].contexts.Front().Value.(*serverContext).handle
		k := &session{Context: r.server.acceptor.make(false), handle: handle[:], sequenceNumbers: newSequenceNumbers(0, firstBack, window)}
		s := signature{session: k, service: service}
		x := oncrpc.Exchange{Prog: testProg, Vers: testVers, Proc: procHead, Args: opaqueArgs([]byte("data"))}
		msg, err := s.AppendCall(nil, 7, &x)
		require.NoError(t, err)
		u := &testUser{handle: handle[:]}
		for bit := range 8 * len(msg) {
			b := bytes.Clone(msg)
			b[bit/8] ^= 1 << (bit % 8)
			r.server.sendMessage(b)
			r.server.forgetSequence(u)
			require.Zero(t, r.server.program.executed.Load(), "bit %d", bit)
		}
		assert.NotNil(t, r.server.sendMessage(msg))
		assert.EqualValues(t, 1, r.server.program.executed.Load())
	}
}
