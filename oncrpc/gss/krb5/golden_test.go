package krb5

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
)

// goldenFields returns the fields of a golden file, each with its length in two
// bytes in front. interop/kerberos writes the files.
func goldenFields(t testing.TB, e Enctype) [][]byte {
	t.Helper()
	b := wiretest.Hex(t, filepath.Join("testdata", e.String()+".hex"))
	var fields [][]byte
	for len(b) > 0 {
		n := int(binary.BigEndian.Uint16(b))
		fields, b = append(fields, b[2:2+n]), b[2+n:]
	}
	return fields
}

// TestGoldenTokens opens tokens that MIT's library has made (R4121-2-1,
// R4121-4.2.4-1, R4121-4.2.4-3, R4121-4.2.5-1, R4121-E-1, R4121-E-2).
func TestGoldenTokens(t *testing.T) {
	for _, e := range enctypes {
		t.Run(e.String(), func(t *testing.T) {
			fields := goldenFields(t, e)
			c, err := NewContext(Establishment{Key: Key{e, fields[3]}, AcceptorSubkey: true})
			require.NoError(t, err)
			tokens := fields[4:]
			for _, message := range []string{"", "message", "a message of MIT's library that is longer than two blocks of the cipher"} {
				assert.Len(t, tokens[0], c.MICSize())
				assert.NoError(t, c.VerifyMIC(tokens[0], [][]byte{[]byte(message)}))
				for _, token := range tokens[1:3] {
					before, after := c.WrapOverhead()
					assert.Len(t, token, before+len(message)+after)
					got, err := c.Unwrap([][]byte{token})
					require.NoError(t, err)
					assert.Equal(t, message, string(bytes.Join(got, nil)))
				}
				assert.NotEqual(t, tokens[1][6:8], tokens[2][6:8], "the second is rotated")
				tokens = tokens[3:]
			}
			assert.Empty(t, tokens)
		})
	}
}

// TestGoldenFirstToken accepts a token that MIT's library has made, with a keytab
// of MIT's kadmin (R4121-4.1-1, R4121-4.1.1-1).
func TestGoldenFirstToken(t *testing.T) {
	for _, e := range enctypes {
		t.Run(e.String(), func(t *testing.T) {
			fields := goldenFields(t, e)
			made := time.Unix(int64(binary.BigEndian.Uint64(fields[0])), 0)
			keytab := filepath.Join(t.TempDir(), "keytab")
			require.NoError(t, os.WriteFile(keytab, fields[1], 0o600))
			entries, err := parseKeytab(fields[1])
			require.NoError(t, err)
			require.Len(t, entries, 2)
			assert.Equal(t, []string{"host", "server.test.example"}, entries[1].principal.Name)
			now := made
			a, err := NewAcceptor(t.Context(), Config{Keytab: keytab, Now: func() time.Time { return now }})
			require.NoError(t, err)
			accepted, err := a.Accept(t.Context(), fields[2], nil)
			require.NoError(t, err)
			assert.Equal(t, alice, accepted.Principal)
			assert.Equal(t, "krb5 "+e.String(), accepted.Context.Mechanism())
			assert.WithinDuration(t, made.Add(10*time.Hour), accepted.Context.Expires(), time.Minute)
			now = made.Add(Skew + time.Minute)
			_, err = a.Accept(t.Context(), fields[2], nil)
			assert.ErrorContains(t, err, "the clocks of client and server differ by 6 minutes (limit 5)")
		})
	}
}
