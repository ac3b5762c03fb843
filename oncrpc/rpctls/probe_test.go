package rpctls

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	testXID = 0x12345678
	nfs     = 100003
)

// TestProbe checks the bytes of the probe and of its answer (R9289-4.1-3,
// R9289-4.1-4, R9289-7-1).
func TestProbe(t *testing.T) {
	want := wiretest.Hex(t, "testdata/probe.hex")
	assert.Equal(t, want, AppendProbe(nil, testXID, nfs, 3))
	is, denial := isProbe(want)
	assert.True(t, is)
	assert.NoError(t, denial)

	answer, ok := addToken(rpcmsg.AppendAccepted(nil, testXID, rpcmsg.Success))
	assert.True(t, ok)
	assert.Equal(t, wiretest.Hex(t, "testdata/answer.hex"), answer)
	assert.NoError(t, checkReply(answer, testXID))

	assert.Equal(t, "sunrpc", string([]byte{0x73, 0x75, 0x6e, 0x72, 0x70, 0x63}))
	assert.Equal(t, "sunrpc", protocolRPC)
}

// TestIsProbe checks which calls ask for TLS, and which ask wrongly.
func TestIsProbe(t *testing.T) {
	probe := func(change func(b []byte)) []byte {
		b := AppendProbe(nil, testXID, nfs, 3)
		change(b)
		return b
	}
	put := func(at int, v uint32) func([]byte) {
		return func(b []byte) { binary.BigEndian.PutUint32(b[at:], v) }
	}
	withBody := func(at int, body ...byte) []byte {
		b := probe(put(at, uint32(len(body))))
		return slices.Insert(b, at+4, body...)
	}
	for _, tt := range []struct {
		name   string
		msg    []byte
		is     bool
		denial error
	}{
		{"a probe", probe(func([]byte) {}), true, nil},
		{"of another program", probe(put(12, 1)), true, nil},
		{"AUTH_SYS", probe(put(flavorAt, rpcmsg.AuthSys)), false, nil},
		{"AUTH_NONE", probe(put(flavorAt, rpcmsg.AuthNone)), false, nil},
		{"a reply", probe(put(4, rpcmsg.MsgReply)), false, nil},
		{"another version of RPC", probe(put(8, 3)), false, nil},
		{"short", probe(func([]byte) {})[:probeLen-1], false, nil},
		{"R9289-4.1-10 procedure 1", probe(put(procAt, 1)), true, rpcmsg.AuthBadCred},
		{"R9289-4.1-10 procedure 4", probe(put(procAt, 4)), true, rpcmsg.AuthBadCred},
		{"R9289-4.1-12 a credential with a body", withBody(flavorAt+4, 1, 2, 3, 4), true, rpcmsg.AuthBadCred},
		{"R9289-4.1-12 a verifier with a body", withBody(flavorAt+12, 1, 2, 3, 4), true, rpcmsg.AuthBadVerf},
		{"R9289-4.1-12 a verifier of another flavour", probe(put(flavorAt+8, 1)), true, rpcmsg.AuthBadVerf},
		{"a credential that does not end", probe(put(flavorAt+4, 0x7fffffff)), true, rpcmsg.AuthBadCred},
	} {
		t.Run(tt.name, func(t *testing.T) {
			is, denial := isProbe(tt.msg)
			assert.Equal(t, tt.is, is)
			assert.Equal(t, tt.denial, denial)
		})
	}
}

// TestAddToken checks that only an accepted reply without a verifier becomes an answer.
func TestAddToken(t *testing.T) {
	for _, reply := range [][]byte{
		rpcmsg.AppendAuthError(nil, testXID, rpcmsg.AuthBadCred), rpcmsg.AppendRPCMismatch(nil, testXID),
		{},
		make([]byte, 23),
		answerWith(rpcmsg.AuthNone, []byte("verifier"), 0),
	} {
		same, ok := addToken(bytes.Clone(reply))
		assert.False(t, ok)
		assert.Equal(t, reply, same)
	}
	mismatch, ok := addToken(rpcmsg.AppendProgMismatch(nil, testXID, 3, 4))
	require.True(t, ok)
	r := xdr.NewReader(mismatch[len(mismatch)-12:])
	assert.Equal(t, []uint32{rpcmsg.ProgMismatch, 3, 4}, []uint32{r.Uint32(), r.Uint32(), r.Uint32()})
	assert.NoError(t, checkReply(mismatch, testXID))
}

// answerWith returns an accepted reply with a verifier.
func answerWith(flavor uint32, body []byte, stat uint32) []byte {
	b := rpcmsg.AppendReply(nil, testXID, rpcmsg.MsgAccepted)
	b = xdr.AppendUint32(b, flavor)
	return xdr.AppendUint32(xdr.AppendOpaque(b, body), stat)
}

// TestReadAnswer checks when a client continues with TLS.
func TestReadAnswer(t *testing.T) {
	for _, tt := range []struct {
		name, want string // empty: TLS begins
		msg        []byte
	}{
		{"SUCCESS", "", answerWith(0, startTLSToken, rpcmsg.Success)},
		{"R9289-4.1-5 PROG_UNAVAIL", "", answerWith(0, startTLSToken, rpcmsg.ProgUnavail)},
		{"R9289-4.1-5 PROG_MISMATCH", "", xdr.AppendUint32(xdr.AppendUint32(answerWith(0, startTLSToken, rpcmsg.ProgMismatch), 3), 4)},
		{"R9289-4.1-7 denied", "AUTH_BADCRED", rpcmsg.AppendAuthError(nil, testXID, rpcmsg.AuthBadCred)},
		{"R9289-4.1-7 denied for the version", "another RPC version", rpcmsg.AppendRPCMismatch(nil, testXID)},
		{"R9289-4.1-7 no verifier", "lacks STARTTLS", answerWith(0, nil, rpcmsg.Success)},
		{"R9289-4.1-7 of 7 bytes", "lacks STARTTLS", answerWith(0, []byte("STARTTL"), rpcmsg.Success)},
		{"R9289-4.1-7 of 9 bytes", "lacks STARTTLS", answerWith(0, []byte("STARTTLSS"), rpcmsg.Success)},
		{"R9289-4.1-7 8 other bytes", "lacks STARTTLS", answerWith(0, []byte("starttls"), rpcmsg.Success)},
		{"R9289-4.1-7 another flavour", "lacks STARTTLS", answerWith(1, startTLSToken, rpcmsg.Success)},
		{"R9289-4.1-7 AUTH_TLS in the verifier", "lacks STARTTLS", answerWith(rpcmsg.AuthTLS, startTLSToken, rpcmsg.Success)},
		{"another XID", "not an RPC reply", rpcmsg.AppendAccepted(nil, 1, rpcmsg.Success)},
		{"a call", "not an RPC reply", AppendProbe(nil, testXID, nfs, 3)},
		{"short", "not an RPC reply", answerWith(0, startTLSToken, 0)[:20]},
		{"nothing", "not an RPC reply", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := checkReply(tt.msg, testXID)
			if tt.want == "" {
				assert.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, tt.want)
		})
	}
}

// TestTakeRecord checks that a record is found in any pieces, and what is behind it.
func TestTakeRecord(t *testing.T) {
	stream := wiretest.Bytes(t, "00 00 00 02  61 62   00 00 00 01  63   80 00 00 00   78 79")
	for n := range len(stream) - 2 {
		_, _, whole, err := splitRecord(stream[:n])
		assert.False(t, whole, n)
		assert.NoError(t, err, n)
	}
	msg, behind, whole, err := splitRecord(stream)
	require.NoError(t, err)
	assert.True(t, whole)
	assert.Equal(t, "abc", string(msg))
	assert.Equal(t, "xy", string(behind))
	for _, bad := range []string{"80 00 04 01", "00 00 00 00", "7f ff ff ff", "48 54 54 50"} {
		_, _, _, err := splitRecord(wiretest.Bytes(t, bad))
		assert.ErrorIs(t, err, errProbeReply, bad)
	}
}

func FuzzTakeRecord(f *testing.F) {
	f.Add(append([]byte{0x80, 0, 0, 36}, wiretest.Hex(f, "testdata/answer.hex")...))
	f.Fuzz(func(t *testing.T, b []byte) {
		msg, behind, whole, err := splitRecord(b)
		if len(msg) > maxReply || len(behind) > len(b) || whole && err != nil {
			t.Fatal(len(msg), len(behind), whole, err)
		}
		if whole {
			_ = checkReply(msg, testXID)
		}
	})
}

func FuzzProbe(f *testing.F) {
	f.Add(wiretest.Hex(f, "testdata/probe.hex"))
	f.Add(wiretest.Hex(f, "testdata/answer.hex"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if is, denial := isProbe(b); is && denial == nil {
			if !bytes.Equal(b[:probeLen], AppendProbe(nil, uint32At(b, 0), uint32At(b, 12), uint32At(b, 16))) {
				t.Fatalf("%x is no probe", b)
			}
		}
		if answer, ok := addToken(bytes.Clone(b)); ok && checkReply(answer, uint32At(b, 0)) != nil && uint32At(b, 4) == rpcmsg.MsgReply {
			t.Fatalf("%x has no answer", b)
		}
	})
}

// TestCounter checks that records are counted in pieces of any length.
func TestCounter(t *testing.T) {
	stream := wiretest.Bytes(t, "17 03 03 00 03 616263  15 03 03 00 00  16 03 03 00 01 78  17 03 03")
	for n := 1; n <= len(stream); n++ {
		var c recordCounter
		for part := range slices.Chunk(stream, n) {
			c.countRecords(part)
		}
		assert.EqualValues(t, 3, c.records.Load(), n)
	}
}

func FuzzCounter(f *testing.F) {
	f.Add([]byte{0x17, 3, 3, 0, 1, 9, 0x17, 3, 3, 0xff}, uint8(2))
	f.Fuzz(func(t *testing.T, b []byte, n uint8) {
		var whole, pieces recordCounter
		whole.countRecords(b)
		for part := range slices.Chunk(b, int(n)+1) {
			pieces.countRecords(part)
		}
		if whole.records.Load() != pieces.records.Load() || whole.contentLeft != pieces.contentLeft || whole.headerBytes != pieces.headerBytes {
			t.Fatal("the pieces count otherwise")
		}
	})
}
