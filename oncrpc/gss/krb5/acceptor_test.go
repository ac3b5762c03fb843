package krb5

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/wiretest"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
)

// A testAcceptor is an acceptor with a keytab and a clock of the test.
type testAcceptor struct {
	*testing.T
	acceptor *Acceptor
	keytab   string
	now      time.Time
}

func newBench(t *testing.T, entries ...keytabEntry) *testAcceptor {
	t.Helper()
	b := &testAcceptor{T: t, keytab: filepath.Join(t.TempDir(), "keytab"), now: testTime}
	if len(entries) == 0 {
		entries = []keytabEntry{newEntry(nfsServer, 3, testKey(AES256SHA1, 1))}
	}
	b.writeKeytab(entries...)
	var err error
	b.acceptor, err = NewAcceptor(t.Context(), Config{Keytab: b.keytab, Now: func() time.Time { return b.now }})
	require.NoError(t, err)
	return b
}

func (b *testAcceptor) writeKeytab(entries ...keytabEntry) {
	b.Helper()
	require.NoError(b, os.WriteFile(b.keytab, keytabFile(entries...), 0o600))
}

func (b *testAcceptor) acceptToken(f *fakeInitiator) (gss.Accepted, error) {
	return b.acceptor.Accept(b.Context(), f.newToken(), nil)
}

// expectRejected expects an error with a KRB-ERROR that has its code and the server's
// time.
func (b *testAcceptor) expectRejected(err error, major gss.Major, code errorCode, words string) {
	b.Helper()
	var ge *gss.Error
	require.ErrorAs(b, err, &ge)
	assert.Equal(b, major, ge.Major, "%v", err)
	assert.EqualValues(b, code, ge.Minor, "%v", err)
	assert.Equal(b, words, ge.Err.Error())
	var e krbErrorMessage
	readAnswer(b.T, ge.Token, tokenError, messageError, &e)
	assert.Equal(b, []int{protocolVersion, messageError, int(code)}, []int{e.Version, e.Type, e.Code})
	assert.Equal(b, b.now.Unix(), e.STime.Unix())
	assert.Equal(b, b.now.Nanosecond()/1000, e.SUsec)
	assert.NotEmpty(b, e.Name.Text)
}

// TestAccept makes contexts with and without an initiator's subkey, with a session
// key of another type than the service's (R4121-2-3, R4121-6-1), and passes
// tokens both ways. The answer proves who the acceptor is (R4121-4.1.1.1-2).
func TestAccept(t *testing.T) {
	for _, e := range enctypes {
		for _, subkey := range []Enctype{0, AES256SHA384} {
			b := newBench(t, newEntry(nfsServer, 3, testKey(e, 1)))
			f := newFakeInitiator()
			f.serviceKey, f.enctype, f.session = testKey(e, 1), e, testKey(AES128SHA256, 2)
			want := AES128SHA256
			if subkey != 0 {
				f.subkey, want = testKey(subkey, 9), subkey
			}
			accepted, err := b.acceptToken(f)
			require.NoError(t, err)
			assert.Equal(t, alice, accepted.Principal)
			assert.Equal(t, f.end, accepted.Context.Expires().UTC(), "R4121-P-2")
			initiator, part := f.completeContext(t, accepted.Token)
			assert.Equal(t, f.ctime, part.CTime.UTC())
			assert.EqualValues(t, f.cusec, part.CUsec)
			assert.EqualValues(t, want, part.Subkey.Type)
			assert.NotEqual(t, f.subkey.Value, part.Subkey.Value)

			acceptor := accepted.Context.(*Context)
			token := wrapMessage(t, acceptor, []byte("to the initiator"))
			assert.EqualValues(t, part.Sequence, binary.BigEndian.Uint64(token[8:]))
			assert.EqualValues(t, flagSentByAcceptor|flagSealed|flagAcceptorSubkey, token[2]) // R4121-2-2
			got, err := unwrapToken(initiator, token)
			require.NoError(t, err)
			assert.Equal(t, "to the initiator", string(got))
			got, err = unwrapToken(acceptor, wrapMessage(t, initiator, []byte("to the acceptor")))
			require.NoError(t, err)
			assert.Equal(t, "to the acceptor", string(got))
		}
	}
}

// TestAcceptOneWay makes a context for an initiator that wants no AP-REP, and gets none:
// the key is the initiator's subkey, and no token says that the acceptor has asserted
// it (R4121-2-2, R4121-4.1.1.1-2). An initiator without a subkey is refused.
func TestAcceptOneWay(t *testing.T) {
	b, f := newBench(t), newFakeInitiator()
	f.checksum, f.subkey = newChecksum(usualFlags&^flagMutual, nil), Key{}
	_, err := b.acceptor.Accept(t.Context(), f.newToken(), nil)
	assert.ErrorContains(t, err, "has no subkey")
	f.subkey = testKey(AES256SHA384, 9)
	initiator, err := NewContext(Establishment{Key: f.subkey, Sequence: uint64(f.sequence), Expires: f.end})
	require.NoError(t, err)
	first := f.newToken()
	accepted, err := b.acceptor.Accept(t.Context(), bytes.Clone(first), nil)
	require.NoError(t, err)
	assert.Empty(t, accepted.Token)
	assert.Equal(t, alice, accepted.Principal)
	assert.Equal(t, f.end, accepted.Context.Expires().UTC(), "R4121-P-2")

	acceptor := accepted.Context.(*Context)
	token := wrapMessage(t, acceptor, []byte("to the initiator"))
	assert.EqualValues(t, f.sequence, binary.BigEndian.Uint64(token[8:]))
	assert.EqualValues(t, flagSentByAcceptor|flagSealed, token[2])
	got, err := unwrapToken(initiator, token)
	require.NoError(t, err)
	assert.Equal(t, "to the initiator", string(got))
	got, err = unwrapToken(acceptor, wrapMessage(t, initiator, []byte("to the acceptor")))
	require.NoError(t, err)
	assert.Equal(t, "to the acceptor", string(got))

	_, err = b.acceptor.Accept(t.Context(), first, nil)
	assert.ErrorContains(t, err, "the token was sent before")
}

// BenchmarkAccept measures new contexts of one client.
func BenchmarkAccept(b *testing.B) {
	path := filepath.Join(b.TempDir(), "keytab")
	require.NoError(b, os.WriteFile(path, keytabFile(newEntry(nfsServer, 3, testKey(AES256SHA1, 1))), 0o600))
	a, err := NewAcceptor(b.Context(), Config{Keytab: path, Now: func() time.Time { return testTime }})
	require.NoError(b, err)
	f := newFakeInitiator()
	f.session, f.subkey = testKey(AES256SHA1, 2), testKey(AES256SHA1, 3)
	tokens := make([][]byte, 1000)
	for i := range tokens {
		tokens[i] = f.newToken()
	}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		if n%len(tokens) == 0 {
			a.replays = newReplayCache(maxAuthenticators, maxPerPrincipal)
		}
		if _, err := a.Accept(b.Context(), tokens[n%len(tokens)], nil); err != nil {
			b.Fatal(err)
		}
	}
}

// TestFreshSubkeys checks that two contexts of one ticket have different keys, so
// that a repeated AP-REQ gives an attacker nothing.
func TestFreshSubkeys(t *testing.T) {
	b := newBench(t)
	f := newFakeInitiator()
	first, err := b.acceptToken(f)
	require.NoError(t, err)
	second, err := b.acceptToken(f)
	require.NoError(t, err)
	_, one := f.completeContext(t, first.Token)
	_, two := f.completeContext(t, second.Token)
	assert.NotEqual(t, one.Subkey.Value, two.Subkey.Value)
	assert.NotEqual(t, one.Sequence, two.Sequence)
}

// TestTaken changes what an acceptor must not mind.
func TestTaken(t *testing.T) {
	for name, change := range map[string]func(*fakeInitiator){
		"checksum with an extension":      func(f *fakeInitiator) { f.checksum = append(f.checksum, make([]byte, 16)...) }, // R4121-4.1.1-2
		"delegated ticket":                func(f *fakeInitiator) { f.checksum = delegationChecksum(40, 40) },              // R4121-4.1.1-3
		"delegated ticket and extension":  func(f *fakeInitiator) { f.checksum = delegationChecksum(40, 50) },
		"unknown flags":                   func(f *fakeInitiator) { f.checksum = newChecksum(usualFlags|0xfffff000, nil) }, // R4121-4.1.1.1-1
		"no sequence number":              func(f *fakeInitiator) { f.noSequence = true },
		"negative sequence number":        func(f *fakeInitiator) { f.sequence = -5 },
		"large sequence number":           func(f *fakeInitiator) { f.sequence = 1<<32 - 1 },
		"mutual-required":                 func(f *fakeInitiator) { f.options = 1 << (31 - 2) },
		"no key version":                  func(f *fakeInitiator) { f.kvno = 0 },
		"alias of the server":             func(f *fakeInitiator) { f.named.Name = []string{"nfs", "alias"} },
		"clock at the limit, behind":      func(f *fakeInitiator) { f.ctime = testTime.Add(-Skew) },
		"clock at the limit, ahead":       func(f *fakeInitiator) { f.ctime = testTime.Add(Skew) },
		"ticket just ended":               func(f *fakeInitiator) { f.end = testTime.Add(-Skew) },
		"ticket just begins":              func(f *fakeInitiator) { f.start = testTime.Add(Skew) },
		"start after authentication":      func(f *fakeInitiator) { f.auth, f.start = testTime.Add(time.Hour), testTime },
		"restrictions that may be missed": func(f *fakeInitiator) { f.ticketData, f.authData = []int32{1, 1}, []int32{1} },
		"another realm, checked": func(f *fakeInitiator) {
			f.client.Realm, f.claimed.Realm, f.flags = "OTHER.EXAMPLE", "OTHER.EXAMPLE", flagTransitedChecked
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeInitiator()
			change(f)
			accepted, err := newBench(t).acceptToken(f)
			require.NoError(t, err)
			assert.Equal(t, f.client, accepted.Principal)
		})
	}
}

// delegationChecksum returns a checksum with a delegated ticket that claims one length and
// has another.
func delegationChecksum(claimed, size int) []byte {
	b := newChecksum(usualFlags|flagDelegate, nil)
	b = binary.LittleEndian.AppendUint16(b, 1)
	b = binary.LittleEndian.AppendUint16(b, uint16(claimed))
	return append(b, make([]byte, size)...)
}

const malformed = "a Kerberos message is malformed"

// TestRefused changes what an acceptor must check, and compares status, code and
// words.
func TestRefused(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*fakeInitiator)
		major  gss.Major
		code   errorCode
		words  string
	}{
		{"unknown token", func(f *fakeInitiator) { f.id = 0x0909 }, gss.DefectiveToken, codeMessageType, // R4121-4.1-2
			"the first token has the identifier 0x0909, which is not an AP-REQ's"},
		{"version", func(f *fakeInitiator) { f.version = 4 }, gss.DefectiveToken, codeBadVersion, "a message has Kerberos version 4, not 5"},
		{"message", func(f *fakeInitiator) { f.message = 15 }, gss.DefectiveToken, codeMessageType, "a message has type 15, which is not an AP-REQ's"},
		{
			"user-to-user", func(f *fakeInitiator) { f.options = optionUseSessionKey }, gss.Failure, codeNoKey,
			"the ticket is encrypted with a session key of this server (user-to-user), which has none",
		},
		{"another service", func(f *fakeInitiator) { f.named.Name = []string{"host", "server.test.example"} }, gss.NoCred, codeNotUs, // R4121-P-3
			"a client has a ticket for host/server.test.example: only tickets for nfs/ are accepted"},
		{"RC4", func(f *fakeInitiator) { f.enctype = 23 }, gss.Failure, codeEnctype, // R4121-1-1
			"a client's ticket for nfs/server.test.example uses encryption type 23: create an aes256-cts key for the service at the KDC, and a new keytab"},
		{"Camellia", func(f *fakeInitiator) { f.enctype = 26 }, gss.Failure, codeEnctype, // R4121-E-3
			"a client's ticket for nfs/server.test.example uses encryption type 26: create an aes256-cts key for the service at the KDC, and a new keytab"},
		{"session key of RC4", func(f *fakeInitiator) { f.session = Key{23, make([]byte, 16)} }, gss.Failure, codeEnctype, // R4121-1-1
			"the ticket's session key: encryption type 23 is not supported: only aes128-cts and aes256-cts are (17 to 20)"},
		{
			"short session key", func(f *fakeInitiator) { f.session = Key{25, make([]byte, 8)} }, gss.Failure, codeEnctype,
			"the ticket's session key: encryption type 25 is not supported: only aes128-cts and aes256-cts are (17 to 20)",
		},
		{"subkey of DES", func(f *fakeInitiator) { f.subkey = Key{3, make([]byte, 8)} }, gss.Failure, codeEnctype, // R4121-1-1
			"alice@TEST.EXAMPLE: the subkey: encryption type 3 is not supported: only aes128-cts and aes256-cts are (17 to 20)"},
		{
			"long subkey", func(f *fakeInitiator) { f.subkey = Key{AES128SHA1, make([]byte, 32)} }, gss.Failure, codeEnctype,
			"alice@TEST.EXAMPLE: the subkey: a key for aes128-cts-hmac-sha1-96 has 16 bytes, not 32",
		},
		{
			"forged ticket", func(f *fakeInitiator) { f.serviceKey = testKey(AES256SHA1, 7) }, gss.NoCred, codeIntegrity,
			"a client has a ticket for nfs/server.test.example that the keytab's key does not open: the ticket is forged, or the key is not the KDC's",
		},
		{"postdated", func(f *fakeInitiator) { f.flags = flagInvalid }, gss.Failure, codeNotYet, "alice@TEST.EXAMPLE: the ticket is postdated, and was not validated"},
		{
			"not yet", func(f *fakeInitiator) { f.start = testTime.Add(Skew + time.Second) }, gss.Failure, codeNotYet,
			"alice@TEST.EXAMPLE: the ticket is valid from 2027-03-04 05:11:08Z on; it is 2027-03-04 05:06:07Z",
		},
		{
			"ended", func(f *fakeInitiator) { f.end = testTime.Add(-Skew - time.Second) }, gss.CredentialsExpired, codeExpired,
			"alice@TEST.EXAMPLE: the ticket expired at 2027-03-04 05:01:06Z; it is 2027-03-04 05:06:07Z: the client must run kinit",
		},
		{
			"another realm", func(f *fakeInitiator) { f.client.Realm, f.claimed.Realm = "OTHER.EXAMPLE", "OTHER.EXAMPLE" }, gss.Failure, codePath,
			"alice@OTHER.EXAMPLE: the KDC of TEST.EXAMPLE has not checked the realms between the client's and its own",
		},
		{"another realm that the clear part names", func(f *fakeInitiator) {
			f.client.Realm, f.claimed.Realm, f.named.Realm = "OTHER.EXAMPLE", "OTHER.EXAMPLE", "OTHER.EXAMPLE"
		}, gss.Failure, codePath, "alice@OTHER.EXAMPLE: the KDC of TEST.EXAMPLE has not checked the realms between the client's and its own"},
		{
			"restricted ticket", func(f *fakeInitiator) { f.ticketData = []int32{1, 512} }, gss.Failure, codePolicy,
			"alice@TEST.EXAMPLE: the ticket has restrictions that this server does not know",
		},
		{
			"restricted authenticator", func(f *fakeInitiator) { f.authData = []int32{4} }, gss.Failure, codePolicy,
			"alice@TEST.EXAMPLE: the authenticator has restrictions that this server does not know",
		},
		{
			"another type", func(f *fakeInitiator) { f.sealedAs = AES256SHA384 }, gss.Failure, codeEnctype,
			"alice@TEST.EXAMPLE: the authenticator uses aes256-cts-hmac-sha384-192, and the session key aes128-cts-hmac-sha1-96",
		},
		{
			"clock of another age", func(f *fakeInitiator) { f.ctime = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) }, gss.Failure, codeSkew,
			"alice@TEST.EXAMPLE: the clocks of client and server differ by 153722868 minutes (limit 5)",
		},
		{
			"clock of a zone", func(f *fakeInitiator) { f.ctimeText = "20270304040607-0100" }, gss.DefectiveToken, codeGeneric,
			"alice@TEST.EXAMPLE: " + malformed,
		},
		{
			"another name", func(f *fakeInitiator) { f.claimed.Name = []string{"root"} }, gss.Failure, codeMatch,
			"alice@TEST.EXAMPLE: the authenticator names root@TEST.EXAMPLE",
		},
		{
			"the name and more", func(f *fakeInitiator) { f.claimed.Name = []string{"alice", ""} }, gss.Failure, codeMatch,
			"alice@TEST.EXAMPLE: the authenticator names alice/@TEST.EXAMPLE",
		},
		{
			"another realm claimed", func(f *fakeInitiator) { f.claimed.Realm = "TEST.EXAMPLE\n" }, gss.Failure, codeMatch,
			`alice@TEST.EXAMPLE: the authenticator names alice@TEST.EXAMPLE\n`,
		},
		{"clock behind", func(f *fakeInitiator) { f.ctime = testTime.Add(-Skew - time.Second) }, gss.Failure, codeSkew, // R4121-7-1
			"alice@TEST.EXAMPLE: the clocks of client and server differ by 6 minutes (limit 5)"},
		{"clock ahead", func(f *fakeInitiator) { f.ctime = testTime.Add(7 * time.Minute) }, gss.Failure, codeSkew, // R4121-7-1
			"alice@TEST.EXAMPLE: the clocks of client and server differ by 7 minutes (limit 5)"},
		{
			"no checksum", func(f *fakeInitiator) { f.checksum = nil }, gss.Failure, codeInapplicable,
			"alice@TEST.EXAMPLE: the authenticator's checksum has type 0, not the GSS-API's",
		},
		{"another checksum", func(f *fakeInitiator) { f.checksumType = 16 }, gss.Failure, codeInapplicable, // R4121-4.1.1-1
			"alice@TEST.EXAMPLE: the authenticator's checksum has type 16, not the GSS-API's"},
		{"short checksum", func(f *fakeInitiator) { f.checksum = f.checksum[:23] }, gss.DefectiveToken, codeGeneric, // R4121-4.1.1-2
			"alice@TEST.EXAMPLE: the authenticator's checksum is malformed"},
		{
			"empty checksum", func(f *fakeInitiator) { f.checksum = []byte{} }, gss.DefectiveToken, codeGeneric,
			"alice@TEST.EXAMPLE: the authenticator's checksum is malformed",
		},
		{
			"length of bindings", func(f *fakeInitiator) { f.checksum[0] = 15 }, gss.DefectiveToken, codeGeneric,
			"alice@TEST.EXAMPLE: the authenticator's checksum is malformed",
		},
		{
			"delegation cut off", func(f *fakeInitiator) { f.checksum = delegationChecksum(40, 39) }, gss.DefectiveToken, codeGeneric,
			"alice@TEST.EXAMPLE: the authenticator's checksum is malformed",
		},
		{
			"delegation without length", func(f *fakeInitiator) { f.checksum = delegationChecksum(0, 0)[:27] }, gss.DefectiveToken, codeGeneric,
			"alice@TEST.EXAMPLE: the authenticator's checksum is malformed",
		},
		{"bindings", func(f *fakeInitiator) { f.checksum = newChecksum(usualFlags, []byte("tls")) }, gss.BadBindings, codeGeneric, // R4121-4.1.1.2-1
			"alice@TEST.EXAMPLE: the client's token is bound to TLS, but the connection does not use TLS: a machine in the middle may have terminated it"},
		{"microseconds", func(f *fakeInitiator) { f.cusec = 1000000 }, gss.DefectiveToken, codeGeneric, "alice@TEST.EXAMPLE: " + malformed},
		{"sequence number", func(f *fakeInitiator) { f.sequence = 1 << 32 }, gss.DefectiveToken, codeGeneric, "alice@TEST.EXAMPLE: " + malformed},
		{"nameless client", func(f *fakeInitiator) { f.client.Name = nil }, gss.DefectiveToken, codeGeneric, malformed},
		{"nameless authenticator", func(f *fakeInitiator) { f.claimed.Name = nil }, gss.DefectiveToken, codeGeneric, "alice@TEST.EXAMPLE: " + malformed},
		{"nameless service", func(f *fakeInitiator) { f.named.Name = nil }, gss.DefectiveToken, codeGeneric, malformed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, f := newBench(t), newFakeInitiator()
			tt.change(f)
			_, err := b.acceptToken(f)
			b.expectRejected(err, tt.major, tt.code, tt.words)
		})
	}
}

// TestNotKerberos checks that other mechanisms and framings get no KRB-ERROR.
func TestNotKerberos(t *testing.T) {
	b, f := newBench(t), newFakeInitiator()
	check := func(token []byte, major gss.Major, words string) {
		t.Helper()
		_, err := b.acceptor.Accept(t.Context(), token, nil)
		var ge *gss.Error
		require.ErrorAs(t, err, &ge)
		assert.Equal(t, major, ge.Major)
		assert.Nil(t, ge.Token)
		assert.Contains(t, ge.Err.Error(), words)
	}
	f.oid = oidSPNEGO
	check(f.newToken(), gss.BadMech, "SPNEGO") // R4121-4.1-3
	f.oid = []byte{0x2a, 0x03}
	check(f.newToken(), gss.BadMech, "the client's mechanism is 2a03, not Kerberos")
	f.oid = oidKerberos
	token := f.newToken()
	for n := range token {
		check(token[:n], gss.DefectiveToken, "no GSS-API framing")
	}
	check(append(bytes.Clone(token), 0), gss.DefectiveToken, "no GSS-API framing")
	check(token[2:], gss.DefectiveToken, "no GSS-API framing")
	check(frameToken(0x0100, nil)[:13], gss.DefectiveToken, "no GSS-API framing")
	check(frameOf("\x01"), gss.DefectiveToken, "the first token ends within its identifier")
	check(append(token, make([]byte, 64<<10)...), gss.DefectiveToken, "(limit 65536)")
}

// TestLongNames checks that unauthenticated peers cannot fill a log with long
// names.
func TestLongNames(t *testing.T) {
	long := strings.Repeat("\x00", 20000)
	for name, change := range map[string]func(*fakeInitiator){
		"mechanism":       func(f *fakeInitiator) { f.oid = []byte(long) },
		"another service": func(f *fakeInitiator) { f.named.Name = []string{long, long} },
		"server":          func(f *fakeInitiator) { f.named.Name = []string{service, long} },
		"type":            func(f *fakeInitiator) { f.named.Name, f.enctype = []string{service, long}, 23 },
		"realm":           func(f *fakeInitiator) { f.named.Realm = long },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeInitiator()
			f.serviceKey = testKey(AES256SHA1, 7) // no service's
			change(f)
			_, err := newBench(t).acceptToken(f)
			require.Error(t, err)
			assert.Less(t, len(err.Error()), 3000)
		})
	}
	assert.Equal(t, strings.Repeat("a", maxNamed), escapeName(strings.Repeat("a", maxNamed)))
	assert.Equal(t, strings.Repeat("a", maxNamed)+"... (257 bytes)", escapeName(strings.Repeat("a", maxNamed+1)))
}

// frameOf frames bytes without an identifier.
func frameOf(message string) []byte {
	inner := append([]byte{6, byte(len(oidKerberos))}, oidKerberos...)
	inner = append(inner, message...)
	return append([]byte{tagApplication0, byte(len(inner))}, inner...)
}

// TestFraming compares the framing with RFC 2743, Section 3.1, for lengths of one
// to three bytes (R4121-4.1-1).
func TestFraming(t *testing.T) {
	for _, tt := range []struct {
		size   int
		header string
	}{
		{10, "60 17 06 09 2a 86 48 86 f7 12 01 02 02 01 00"},
		{200, "60 81 d5 06 09 2a 86 48 86 f7 12 01 02 02 01 00"},
		{700, "60 82 02 c9 06 09 2a 86 48 86 f7 12 01 02 02 01 00"},
	} {
		message := bytes.Repeat([]byte{'m'}, tt.size)
		token := frameToken(tokenAPReq, message)
		assert.Equal(t, append(wiretest.Bytes(t, tt.header), message...), token)
		got, err := unframeToken(token)
		require.NoError(t, err)
		assert.Equal(t, message, got[2:])
	}
}

// TestBindings takes tokens that are bound to the connection's TLS session
// (R4121-4.1.1.2-1).
func TestBindings(t *testing.T) {
	b, f := newBench(t), newFakeInitiator()
	_, err := b.acceptor.Accept(t.Context(), f.newToken(), []byte("tls-exporter:x"))
	assert.NoError(t, err, "a token without bindings")
	f.checksum = newChecksum(usualFlags, []byte("tls-exporter:x"))
	_, err = b.acceptor.Accept(t.Context(), f.newToken(), []byte("tls-exporter:x"))
	assert.NoError(t, err)
	_, err = b.acceptor.Accept(t.Context(), f.newToken(), []byte("tls-exporter:y"))
	b.expectRejected(err, gss.BadBindings, codeGeneric,
		"alice@TEST.EXAMPLE: the client's token is bound to another TLS session than the connection's: there may be a machine in the middle")
}

// TestReplay sends a token twice, at once and later, from many goroutines
// (R4121-7-1).
func TestReplay(t *testing.T) {
	b, f := newBench(t), newFakeInitiator()
	f.ctime = testTime.Add(Skew)
	token := f.newToken()
	var taken atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := b.acceptor.Accept(t.Context(), bytes.Clone(token), nil); err == nil {
				taken.Add(1)
			}
		})
	}
	wg.Wait()
	assert.EqualValues(t, 1, taken.Load())
	words := "alice@TEST.EXAMPLE: the token was sent before: it is a replay, or the client's retransmission"
	for _, later := range []time.Duration{0, 5 * time.Minute, 10 * time.Minute} {
		b.now = testTime.Add(later)
		_, err := b.acceptor.Accept(t.Context(), token, nil)
		b.expectRejected(err, gss.DuplicateToken, codeRepeat, words)
	}
	b.now = testTime.Add(10*time.Minute + time.Second)
	_, err := b.acceptor.Accept(t.Context(), token, nil)
	b.expectRejected(err, gss.Failure, codeSkew, "alice@TEST.EXAMPLE: the clocks of client and server differ by 6 minutes (limit 5)")
	b.now = testTime.Add(5 * time.Minute)
	_, err = b.acceptToken(f)
	assert.NoError(t, err, "another authenticator")
}

// TestReplayAfterRefusal checks that a token that was refused for another reason
// is not stored, so that no client can fill the memory with such tokens.
func TestReplayAfterRefusal(t *testing.T) {
	b, f := newBench(t), newFakeInitiator()
	f.ctime = testTime.Add(6 * time.Minute)
	token := f.newToken()
	_, err := b.acceptor.Accept(t.Context(), token, nil)
	require.Error(t, err)
	b.now = testTime.Add(2 * time.Minute)
	_, err = b.acceptor.Accept(t.Context(), token, nil)
	assert.NoError(t, err)
}

// TestForgedFirstTokens changes each byte of a token: no panic, and no one else than
// alice comes of it.
func TestForgedFirstTokens(t *testing.T) {
	b, f := newBench(t), newFakeInitiator()
	token := f.newToken()
	for i := range token {
		for _, bit := range []byte{0x01, 0x20, 0x80} {
			forged := bytes.Clone(token)
			forged[i] ^= bit
			b.acceptor.replays = newReplayCache(1, 1)
			accepted, err := b.acceptor.Accept(t.Context(), forged, nil)
			if err == nil { // a name or version that nothing protects
				assert.Equal(t, alice, accepted.Principal, i)
			}
		}
	}
}

// TestKeyVersions has a keytab with keys of several versions, and tickets of each
// (R4121-2-3).
func TestKeyVersions(t *testing.T) {
	b := newBench(t, newEntry(nfsServer, 2, testKey(AES256SHA1, 2)), newEntry(nfsServer, 3, testKey(AES256SHA1, 3)),
		newEntry(nfsServer, 3, testKey(AES128SHA1, 4)), newEntry(gss.Principal{Name: []string{"host", "server.test.example"}, Realm: "TEST.EXAMPLE"}, 3, testKey(AES256SHA1, 5)))
	f := newFakeInitiator()
	for _, version := range []uint32{2, 3, 0} {
		f.kvno = version
		for _, seed := range []byte{2, 3} {
			f.serviceKey = testKey(AES256SHA1, seed)
			_, err := b.acceptToken(f)
			assert.NoError(t, err, "version %d, key %d", version, seed)
		}
	}
	f.kvno, f.serviceKey = 4, testKey(AES256SHA1, 6)
	_, err := b.acceptToken(f)
	b.expectRejected(err, gss.NoCred, codeKeyVersion, "a client has a ticket for nfs/server.test.example with key version 4; the keytab has 2 and 3: "+
		"add it with ktadd (it is read again without a restart)")

	f.serviceKey, f.enctype = testKey(AES256SHA384, 6), AES256SHA384
	_, err = b.acceptToken(f)
	b.expectRejected(err, gss.NoCred, codeNoKey, "a client has a ticket for nfs/server.test.example of type aes256-cts-hmac-sha384-192; "+
		"the keytab has aes128-cts-hmac-sha1-96 and aes256-cts-hmac-sha1-96: add it with ktadd (it is read again without a restart)")

	f = newFakeInitiator()
	f.named.Name, f.serviceKey = []string{"nfs", "other"}, testKey(AES256SHA1, 6)
	_, err = b.acceptToken(f)
	b.expectRejected(err, gss.NoCred, codeNotUs, "a client has a ticket for nfs/other@TEST.EXAMPLE; the keytab has nfs/server.test.example@TEST.EXAMPLE: "+
		"add it with ktadd (it is read again without a restart)")

	f = newFakeInitiator()
	f.serviceKey = testKey(AES256SHA1, 5)
	_, err = b.acceptToken(f)
	assert.Error(t, err, "the key of host/ (R4121-P-3)")
}

// TestNewKeytab writes a new keytab while the acceptor works: a ticket of the new
// key is good at once, a file that stays as it is is read once a second at most, and a
// broken file changes nothing.
func TestNewKeytab(t *testing.T) {
	b, f := newBench(t), newFakeInitiator()
	f.kvno, f.serviceKey = 4, testKey(AES256SHA1, 4)
	newer := []keytabEntry{newEntry(nfsServer, 3, testKey(AES256SHA1, 1)), newEntry(nfsServer, 4, testKey(AES256SHA1, 4))}

	b.writeKeytab(newer...)
	_, err := b.acceptToken(f)
	assert.NoError(t, err, "though the file was read in this second")
	f.kvno, f.serviceKey = 7, testKey(AES256SHA1, 7)
	read := b.acceptor.keys.keys.Load()
	for range 3 {
		_, err = b.acceptToken(f)
		assert.Error(t, err)
		assert.Same(t, read, b.acceptor.keys.keys.Load(), "the file is as it was read")
	}
	b.now = b.now.Add(time.Second)
	_, err = b.acceptToken(f)
	assert.Error(t, err)
	assert.NotSame(t, read, b.acceptor.keys.keys.Load())
	f.kvno, f.serviceKey = 4, testKey(AES256SHA1, 4)
	_, err = b.acceptToken(f)
	assert.NoError(t, err)
	_, err = b.acceptToken(newFakeInitiator())
	assert.NoError(t, err, "the old key")

	b.now = b.now.Add(time.Second)
	b.writeKeytab(append(newer, newEntry(nfsServer, 5, testKey(AES256SHA1, 5)))...)
	require.NoError(t, b.acceptor.Reload(t.Context()))
	f.kvno, f.serviceKey = 5, testKey(AES256SHA1, 5)
	_, err = b.acceptToken(f)
	assert.NoError(t, err, "read by Reload")

	require.NoError(t, os.WriteFile(b.keytab, []byte("broken"), 0o600))
	assert.EqualError(t, b.acceptor.Reload(t.Context()), "the keytab "+b.keytab+": not a version 0x0502 keytab")
	_, err = b.acceptToken(f)
	assert.NoError(t, err, "the keys of before")
	b.now = b.now.Add(time.Second)
	f.kvno, f.serviceKey = 6, testKey(AES256SHA1, 6)
	_, err = b.acceptToken(f)
	b.expectRejected(err, gss.NoCred, codeNoKey, "the keytab "+b.keytab+": not a version 0x0502 keytab")
	b.writeKeytab(newEntry(gss.Principal{Name: []string{"host", "a"}, Realm: "R"}, 1, testKey(AES256SHA1, 1)))
	assert.EqualError(t, b.acceptor.Reload(t.Context()), "the keytab "+b.keytab+" has no nfs/ key; it has host/a")
	_, err = b.acceptToken(newFakeInitiator())
	assert.NoError(t, err, "the keys of before")
	require.NoError(t, os.Remove(b.keytab))
	assert.ErrorIs(t, b.acceptor.Reload(t.Context()), os.ErrNotExist)
}

// TestClockSetBack checks that a clock that was set back does not keep the keytab
// from being read.
func TestClockSetBack(t *testing.T) {
	b, f := newBench(t), newFakeInitiator()
	b.writeKeytab(newEntry(nfsServer, 4, testKey(AES256SHA1, 4)))
	b.now = b.now.Add(-time.Minute)
	f.kvno, f.serviceKey = 4, testKey(AES256SHA1, 4)
	_, err := b.acceptToken(f)
	assert.NoError(t, err)
}

// TestNewAcceptor compares the words for keytabs that are of no use.
//
// R2623-3.1-1, R8881-2.2.1.1.1.3-1.
func TestNewAcceptor(t *testing.T) {
	host := gss.Principal{Name: []string{"host", "a.example"}, Realm: "TEST.EXAMPLE"}
	many := func() (list []keytabEntry) {
		for i := range 9 {
			list = append(list, newEntry(gss.Principal{Name: []string{"http", fmt.Sprint("s", i)}, Realm: "R"}, 1, testKey(AES256SHA1, 1)))
		}
		return list
	}()
	for _, tt := range []struct {
		entries []keytabEntry
		want    string
	}{
		{nil, "the keytab PATH is empty"},
		{[]keytabEntry{newEntry(host, 1, testKey(AES256SHA1, 1)), newEntry(host, 1, testKey(AES128SHA1, 1))}, "the keytab PATH has no nfs/ key; it has host/a.example"},
		{many, "the keytab PATH has no nfs/ key; it has http/s0, http/s1, http/s2, http/s3, http/s4 and 4 more"},
		{
			[]keytabEntry{{nfsServer, 1, 23, make([]byte, 16)}, {nfsServer, 1, AES256SHA1, make([]byte, 16)}},
			"the keytab PATH has no nfs/ key that can be used: a key for aes256-cts-hmac-sha1-96 has 32 bytes, not 16 and " +
				"encryption type 23 is not supported: only aes128-cts and aes256-cts are (17 to 20)",
		},
		{[]keytabEntry{newEntry(gss.Principal{Name: []string{"nfs"}, Realm: "R"}, 1, testKey(AES256SHA1, 1))}, "the keytab PATH has no nfs/ key; it has nfs"},
	} {
		path := filepath.Join(t.TempDir(), "keytab")
		require.NoError(t, os.WriteFile(path, keytabFile(tt.entries...), 0o600))
		_, err := NewAcceptor(t.Context(), Config{Keytab: path, Now: time.Now})
		assert.EqualError(t, err, strings.ReplaceAll(tt.want, "PATH", path))
	}
	path := filepath.Join(t.TempDir(), "keytab")
	require.NoError(t, os.WriteFile(path, make([]byte, maxKeytab+1), 0o600))
	_, err := NewAcceptor(t.Context(), Config{Keytab: path, Now: time.Now})
	assert.ErrorContains(t, err, "is longer than 1048576 bytes")
}
