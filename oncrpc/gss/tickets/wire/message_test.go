package wire_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/oncrpc/gss/tickets/wire"
)

// encodeAll returns the bytes of messages.
func encodeAll(t testing.TB, list ...wire.Message) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, m := range list {
		require.NoError(t, wire.Write(&b, m))
	}
	return b.Bytes()
}

var messages = []wire.Message{
	&wire.Request{Service: "nfs@server", Caches: []string{"", "FILE:/tmp/krb5cc_1"}, Keytab: "/etc/krb5.keytab", Principals: []string{"A$", ""}, Enctypes: []uint32{18, 20}, Bindings: []byte("tls-exporter:x")},
	&wire.Token{Token: []byte("token")},
	&wire.Keys{Enctype: 18, Key: bytes.Repeat([]byte{7}, 32), Subkey: true, Sequence: 1 << 40, Expires: 1 << 33, User: "alice@TEST.EXAMPLE"},
	&wire.Failure{Reason: wire.Expired, Text: "your ticket has expired", Cache: "FILE:/tmp/krb5cc_1", Ended: 1 << 33},
}

// TestMessages checks that each message is read as it was written.
func TestMessages(t *testing.T) {
	r := bytes.NewReader(encodeAll(t, messages...))
	for _, want := range messages {
		got, err := wire.Read(r)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	_, err := wire.Read(r)
	assert.Equal(t, io.EOF, err)
}

// TestBrokenMessages checks that messages that are cut, too long or not known are
// errors, and that their lengths allocate nothing.
func TestBrokenMessages(t *testing.T) {
	for _, m := range messages {
		whole := encodeAll(t, m)
		for n := 1; n < len(whole); n++ {
			_, err := wire.Read(bytes.NewReader(whole[:n]))
			assert.ErrorIs(t, err, io.ErrUnexpectedEOF, "%T cut to %d bytes", m, n)
			cut := bytes.Clone(whole[4:])
			if n < len(cut) {
				_, err = wire.Parse(cut[:n])
				assert.Error(t, err, "%T cut to %d bytes", m, n)
			}
		}
		_, err := wire.Parse(append(bytes.Clone(whole[4:]), 0, 0, 0, 0))
		assert.Error(t, err, "%T with bytes behind it", m)
	}
	for _, n := range []uint32{0, 3, wire.MaxMessage + 1, 1<<32 - 1} {
		_, err := wire.Read(bytes.NewReader(binary.BigEndian.AppendUint32(nil, n)))
		assert.Equal(t, wire.ErrLength, err)
	}
	_, err := wire.Parse([]byte{0, 0, 0, 9})
	assert.Equal(t, wire.ErrKind, err)
	_, err = wire.Parse([]byte{0, 0, 0, 1, 0, 0, 0, 1}) // a Request of version 1, whose other fields may be any
	assert.Equal(t, wire.ErrVersion, err)
	assert.Equal(t, wire.ErrLength, wire.Write(io.Discard, &wire.Token{Token: make([]byte, wire.MaxMessage)}))
}

// TestUnknownReason checks that the reason of a newer helper is Other.
func TestUnknownReason(t *testing.T) {
	m, err := wire.Read(bytes.NewReader(encodeAll(t, &wire.Failure{Reason: 99, Text: "words"})))
	require.NoError(t, err)
	assert.Equal(t, &wire.Failure{Reason: wire.Other, Text: "words"}, m)
}

// TestKeysAreSecret checks that no form of output shows a key.
func TestKeysAreSecret(t *testing.T) {
	keys := wire.Keys{Enctype: 18, Key: []byte("\x01\x02\x03secret"), User: "alice@TEST.EXAMPLE"}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d", "%q"} {
		for _, v := range []any{keys, &keys, []wire.Keys{keys}} {
			text := strings.ToLower(fmt.Sprintf(verb, v))
			assert.Contains(t, text, "keys of alice")
			for _, secret := range []string{"secret", "736563726574", "115"} {
				assert.NotContains(t, text, secret, verb)
			}
		}
	}
}

// FuzzParse parses any bytes. A message that is understood is written and read
// with the same fields.
func FuzzParse(f *testing.F) {
	for _, m := range messages {
		f.Add(encodeAll(f, m)[4:])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := wire.Parse(b)
		if err != nil {
			return
		}
		again, err := wire.Read(bytes.NewReader(encodeAll(t, m)))
		require.NoError(t, err)
		require.Equal(t, m, again)
	})
}
