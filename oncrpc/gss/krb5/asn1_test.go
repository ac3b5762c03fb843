package krb5

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/cryptobyte"
)

// TestCutMessages cuts each message at each byte, and adds one: all are refused.
func TestCutMessages(t *testing.T) {
	f := newFakeInitiator()
	f.subkey, f.ticketData, f.authData = testKey(AES256SHA1, 1), []int32{1}, []int32{1}
	for name, m := range map[string]struct {
		der   []byte
		parse func(b []byte) error
	}{
		"AP-REQ":        {f.apReq(), func(b []byte) error { _, err := parseAPReq(b); return err }},
		"EncTicketPart": {f.ticketPart(), func(b []byte) error { _, err := parseTicketPart(b); return err }},
		"Authenticator": {f.newAuthenticator(), func(b []byte) error { _, err := parseAuthenticator(b); return err }},
	} {
		require.NoError(t, m.parse(m.der), name)
		for n := range m.der {
			assert.ErrorIs(t, m.parse(m.der[:n]), errDER, "%s %d", name, n)
		}
		assert.ErrorIs(t, m.parse(append(bytes.Clone(m.der), 0)), errDER, name)
	}
}

// TestNoCopies checks that the ciphers of an AP-REQ alias it.
func TestNoCopies(t *testing.T) {
	der := newFakeInitiator().apReq()
	r, err := parseAPReq(der)
	require.NoError(t, err)
	at := bytes.Index(der, r.ticket.cipher)
	require.Positive(t, at)
	assert.Same(t, &der[at], &r.ticket.cipher[0])
}

// TestFlagsOfAnyLength reads flags of more and less than 32 bits.
func TestFlagsOfAnyLength(t *testing.T) {
	for _, tt := range []struct {
		der  string
		want uint32
	}{
		{"\xa0\x03\x03\x01\x00", 0},
		{"\xa0\x04\x03\x02\x07\x80", 1 << 31},
		{"\xa0\x08\x03\x06\x00\x00\x00\x00\x01\xff", 1},
	} {
		s := cryptobyte.String(tt.der)
		var got uint32
		assert.True(t, readFlags(&s, 0, &got))
		assert.Equal(t, tt.want, got)
	}
}

func fuzzParser[T any](f *testing.F, parse func(b []byte) (T, error), check func(t *testing.T, v T), seeds ...[]byte) {
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		before := bytes.Clone(b)
		v, err := parse(b)
		require.Equal(t, before, b)
		if err == nil {
			check(t, v)
		}
	})
}

// FuzzAPReq reads any bytes as an AP-REQ: one that is taken has names.
func FuzzAPReq(f *testing.F) {
	user := newFakeInitiator()
	user.kvno = 0
	fuzzParser(f, parseAPReq, func(t *testing.T, r apReq) { require.NotEmpty(t, r.service) }, newFakeInitiator().apReq(), user.apReq())
}

// FuzzTicketPart reads any bytes as an EncTicketPart: one that is taken has a name
// and a key that can be used.
func FuzzTicketPart(f *testing.F) {
	user := newFakeInitiator()
	user.ticketData, user.start = []int32{1, 2}, testTime
	fuzzParser(f, parseTicketPart, func(t *testing.T, p ticketPart) {
		require.NotEmpty(t, p.client.Name)
		require.Len(t, p.key.Value, profiles[p.key.Enctype].keySize)
	}, newFakeInitiator().ticketPart(), user.ticketPart())
}

// FuzzAuthenticator reads any bytes as an Authenticator, likewise.
func FuzzAuthenticator(f *testing.F) {
	user := newFakeInitiator()
	user.authData, user.subkey, user.checksum = []int32{1}, testKey(AES256SHA384, 1), nil
	fuzzParser(f, parseAuthenticator, func(t *testing.T, a authenticator) {
		require.NotEmpty(t, a.client.Name)
		require.True(t, a.subkey.Enctype == 0 || len(a.subkey.Value) == profiles[a.subkey.Enctype].keySize)
	}, newFakeInitiator().newAuthenticator(), user.newAuthenticator())
}

// FuzzFirstToken hands any bytes to an acceptor: only alice comes of it. The seeds
// are encrypted, so most finds end before that.
func FuzzFirstToken(f *testing.F) {
	initiator := newFakeInitiator()
	f.Add(initiator.newToken())
	initiator.oid = oidSPNEGO
	f.Add(initiator.newToken())
	f.Add(frameToken(tokenError, buildKRBError(codeSkew, testTime, "R", []string{"nfs", "s"})))
	f.Fuzz(func(t *testing.T, token []byte) {
		b := newBench(t)
		accepted, err := b.acceptor.Accept(t.Context(), token, nil)
		if err == nil {
			require.Equal(t, alice, accepted.Principal)
		}
	})
}
