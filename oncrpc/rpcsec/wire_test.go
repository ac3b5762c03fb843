package rpcsec

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// TestGolden checks the forms of RFC 2203, Section 5, against bytes that were
// written by hand from its text.
func TestGolden(t *testing.T) {
	handle := []byte("sixteen bytes ..")
	data := wiretest.Hex(t, "testdata/credential-data.hex")
	assert.Equal(t, data, appendCredential(nil, credential{proc: procData, seq: 0x01020304, service: servicePrivacy, handle: handle}), "R2203-5-4, R2203-5.3.1-1")
	assert.Len(t, data, credentialLen(handle))
	c, err := readCredential(data[8:])
	require.NoError(t, err)
	assert.Equal(t, credential{procData, 0x01020304, servicePrivacy, handle}, c)

	create := wiretest.Hex(t, "testdata/credential-init.hex")
	assert.Equal(t, create, appendCredential(nil, credential{proc: procInit}), "R2203-5.2.2-1")
	_, err = readCredential(create[8:])
	assert.NoError(t, err)

	res := wiretest.Hex(t, "testdata/init-result.hex")
	want := initResult{handle: handle, major: gss.Complete, minor: 5, window: 2048, token: []byte("token")}
	assert.Equal(t, res, want.appendTo(nil), "R2203-5.2.3.1-1")
	assert.Len(t, res, want.encodedLen())
	var got initResult
	r := xdr.NewReader(res)
	require.NoError(t, got.decode(&r))
	assert.Equal(t, want, got)
	assert.EqualValues(t, 6, rpcmsg.AuthGSS, "R2203-3-1")
}

// TestGoldenBodies checks rpc_gss_integ_data and rpc_gss_priv_data (RFC 2203, Sections
// 5.3.2.2 and 5.3.2.3) with a context whose signature and encryption are readable.
func TestGoldenBodies(t *testing.T) {
	for service, file := range map[uint32]string{serviceIntegrity: "integ-data", servicePrivacy: "priv-data"} {
		want := wiretest.Hex(t, "testdata/"+file+".hex")
		var w sliceScratch
		front, _ := bodyOverhead(clearContext{}, service)
		head := append([]byte("head"), make([]byte, front)...)
		got, _, err := w.sealBody(clearContext{}, service, 7, append(head, "plainarguments!!"...), 4, nil)
		require.NoError(t, err)
		assert.Equal(t, "head", string(got[:4]))
		got = append(got[4:], zeros[:xdr.Pad(len(got))]...)
		assert.Equal(t, want, got, "R2203-5.3.2.2-1, R2203-5.3.2.3-1")

		head, rest, err := w.sealBody(clearContext{}, service, 7, append(append([]byte("head"), make([]byte, front)...), "plainarg"...), 4, []byte("uments!!"))
		require.NoError(t, err)
		assert.Equal(t, want, xdr.AppendFixed(head[4:], rest), "in two parts")

		plain, at, err := w.openBody(clearContext{}, service, 7, got)
		require.NoError(t, err)
		assert.Equal(t, "plainarguments!!", string(plain))
		assert.Equal(t, plain, got[at:at+len(plain)])
		_, _, err = w.openBody(clearContext{}, service, 8, got)
		assert.ErrorIs(t, err, errSeq)
	}
}

// A clearContext has tokens that a person can read.
type clearContext struct{ gss.Context }

func (clearContext) MICSize() int             { return 5 }
func (clearContext) WrapOverhead() (int, int) { return 4, 7 }
func (clearContext) AppendMIC(dst []byte, _ [][]byte) ([]byte, error) {
	return append(dst, "[MIC]"...), nil
}

func (clearContext) VerifyMIC(token []byte, _ [][]byte) error {
	if string(token) != "[MIC]" {
		return fakeError(gss.BadMIC)
	}
	return nil
}

func (clearContext) Wrap(before []byte, _ [][]byte, after []byte) error {
	copy(before, "wrap")
	copy(after, "wrapped")
	return nil
}

func (clearContext) Unwrap(token [][]byte) ([][]byte, error) {
	if len(token[0]) < 11 {
		return nil, fakeError(gss.DefectiveToken)
	}
	return append(token[:0], token[0][4:len(token[0])-7]), nil
}

// A turnedContext has the message at another place in its token, in two parts.
type turnedContext struct{ clearContext }

func (turnedContext) Unwrap(token [][]byte) ([][]byte, error) {
	b := token[0]
	return append(token[:0], b[7:10], b[10:len(b)-4]), nil
}

// TestTurned checks tokens whose message is not at the usual place.
func TestTurned(t *testing.T) {
	var w sliceScratch
	token := append([]byte("another"), append(appendWords(7), "plain argumentswrap"...)...)
	body := xdr.AppendOpaque(nil, token)
	plain, at, err := w.openBody(turnedContext{}, servicePrivacy, 7, body)
	require.NoError(t, err)
	assert.Equal(t, "plain arguments", string(plain))
	assert.Equal(t, "plain arguments", string(body[at:at+len(plain)]))
}

// FuzzCredential checks that a credential is read to its end, or refused as RFC
// 2203 demands.
func FuzzCredential(f *testing.F) {
	for _, file := range []string{"credential-data", "credential-init"} {
		f.Add(wiretest.Hex(f, "testdata/"+file+".hex")[8:])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		c, err := readCredential(body)
		if err != nil {
			require.Contains(t, []rpcmsg.AuthError{rpcmsg.AuthBadCred, rpcmsg.AuthRejectedCred}, err)
			return
		}
		again, err := readCredential(appendCredential(nil, c)[8:])
		require.NoError(t, err)
		require.Equal(t, c, again)
	})
}

// FuzzInitResult checks that a result is read to its end.
func FuzzInitResult(f *testing.F) {
	f.Add(wiretest.Hex(f, "testdata/init-result.hex"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var res initResult
		r := xdr.NewReader(b)
		if res.decode(&r) != nil {
			return
		}
		again := initResult{}
		r = xdr.NewReader(res.appendTo(nil))
		require.NoError(t, again.decode(&r))
		require.Equal(t, res, again)
	})
}

// FuzzServe gives the server arbitrary messages: nothing is executed that the
// context has not signed, and nothing panics.
func FuzzServe(f *testing.F) {
	for _, service := range services {
		u := &testUser{ctx: newFakeContext(fakeKey("alice 1"), false, time.Time{}), handle: make([]byte, handleLen)}
		f.Add(u.newCall(7, procMake, service, opaqueArgs([]byte("data"))), 0)
	}
	f.Add(initCall(1, "alice"), 0)
	f.Add(initCall(1, "alice 2"), 60)
	f.Fuzz(func(t *testing.T, msg []byte, item int) {
		r := newTestServer(t, ServerConfig{})
		u := r.establishContext("alice 1")
		if len(msg) >= 68 && binary.BigEndian.Uint32(msg[24:]) == rpcmsg.AuthGSS {
			copy(msg[52:], u.handle)
		}
		before := string(msg)
		req := &oncrpc.Request{Msg: msg, Peer: &r.peer, MaxReply: 1 << 20, MaxWhole: 1 << 20}
		if item > 0 && item <= len(msg) {
			req.Item, req.ItemPos = []byte("item"), item
		}
		r.serveRequest(req)
		if len(before) >= 28 && binary.BigEndian.Uint32([]byte(before)[24:]) == rpcmsg.AuthGSS && r.program.executed.Load() > 0 {
			t.Fatalf("executed %x", before)
		}
	})
}
