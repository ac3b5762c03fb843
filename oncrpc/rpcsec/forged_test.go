package rpcsec

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// forgeries is how many calls TestKerberosForged forges. FORGERIES sets another number.
const forgeries = 20000

// signedCalls returns calls with signed and with encrypted arguments, in a context of a
// server that has not seen them.
func signedCalls(t *testing.T, r *testServer, handle []byte) (msgs [][]byte) {
	k := &session{Context: r.acceptor.make(false), handle: handle, sequenceNumbers: newSequenceNumbers(0, firstBack, window)}
	for i := range uint32(30) {
		s := signature{session: k, service: services[1+i%2]}
		x := oncrpc.Exchange{Prog: testProg, Vers: testVers, Proc: procMake, Args: opaqueArgs(bytes.Repeat([]byte{byte(i)}, int(i)))}
		msg, err := s.AppendCall(nil, i, &x)
		require.NoError(t, err)
		s.Sent()
		msgs = append(msgs, msg)
	}
	return msgs
}

// forgeCall returns a call made of others: bits flipped, words changed, cut, lengthened,
// or the parts of two.
func forgeCall(r *rand.Rand, msgs [][]byte) []byte {
	b := bytes.Clone(msgs[r.IntN(len(msgs))])
	switch other := msgs[r.IntN(len(msgs))]; r.IntN(6) {
	case 0:
		for range 1 + r.IntN(4) {
			b[r.IntN(len(b))] ^= 1 << r.IntN(8)
		}
	case 1: // a word, often a length
		at := 4 * r.IntN(len(b)/4)
		copy(b[at:], []byte{0, 0, byte(r.IntN(2)), byte(r.Uint32())})
	case 2:
		b = b[:r.IntN(len(b))]
	case 3:
		b = append(b, make([]byte, 4*(1+r.IntN(8)))...)
	case 4: // the end of another
		at := 4 * r.IntN(min(len(b), len(other))/4)
		b = append(b[:at], other[at:]...)
	case 5: // words of another
		at := 4 * r.IntN(min(len(b), len(other))/4)
		copy(b[at:], other[at:min(len(other), at+4*(1+r.IntN(12)))])
	}
	return b
}

// normalizeRotation removes whole turns from a Wrap token's count of rotated bytes, which nothing
// protects (RFC 4121, Section 4.2.4): the token is the same.
func normalizeRotation(msg []byte) []byte {
	at := bytes.Index(msg, []byte{5, 4, 6, 0xff})
	if at < 4 || len(msg) < at+16 {
		return msg
	}
	size, count := binary.BigEndian.Uint32(msg[at-4:]), msg[at+6:at+8]
	if size > 16 {
		binary.BigEndian.PutUint16(count, uint16(uint32(binary.BigEndian.Uint16(count))%(size-16)))
	}
	return msg
}

// TestKerberosForged checks that no forged call with signed or encrypted arguments is
// executed, whatever it is made of.
func TestKerberosForged(t *testing.T) {
	n := forgeries
	if v := os.Getenv("FORGERIES"); v != "" {
		var err error
		n, err = strconv.Atoi(v)
		require.NoError(t, err)
	}
	for e := range sizes {
		r := newTestServer(t, ServerConfig{})
		r.acceptor.make = newKerberosContext(t, e)
		require.NotNil(t, r.sendMessage(initCall(1, "alice 0")))
		handle := r.contexts.largest[0].contexts.Front().Value.(*serverContext).handle
		msgs, u := signedCalls(t, r, handle[:]), &testUser{handle: handle[:]}
		random := rand.New(rand.NewPCG(uint64(e), 1))
		genuine := make(map[string]bool)
		for _, msg := range msgs {
			genuine[string(msg)] = true
		}
		for range n / len(sizes) {
			b := forgeCall(random, msgs)
			forged := bytes.Clone(b)
			if genuine[string(normalizeRotation(bytes.Clone(b)))] {
				continue
			}
			r.sendMessage(b)
			r.forgetSequence(u)
			require.Zero(t, r.program.executed.Load(), "%x", forged)
		}
		for _, msg := range msgs {
			assert.NotNil(t, r.sendMessage(msg), "the context has come to harm")
		}
		assert.EqualValues(t, len(msgs), r.program.executed.Load())
	}
}
