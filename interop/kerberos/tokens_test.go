//go:build interop

package kerberos

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss/krb5"
)

var enctypes = map[krb5.Enctype]string{
	krb5.AES128SHA1: "aes128-cts-hmac-sha1-96", krb5.AES256SHA1: "aes256-cts-hmac-sha1-96",
	krb5.AES128SHA256: "aes128-cts-hmac-sha256-128", krb5.AES256SHA384: "aes256-cts-hmac-sha384-192",
}

const (
	server  = "nfs@server.test.example"
	randoms = 2500 // messages for each encryption type, each way
)

var allFlags = []string{"mutual", "replay", "sequence", "integrity", "confidentiality"}

// A testRealm is a KDC with its peer, and an acceptor of nfs/server.test.example.
type testRealm struct {
	*testing.T
	kdc      *KDC
	peer     *gssPeer
	acceptor *krb5.Acceptor
	ahead    time.Duration // how far the acceptor's clock is ahead
}

func newRealm(t *testing.T, enctype string) *testRealm {
	dir := t.TempDir()
	kdc, err := StartKDC(dir, enctype)
	require.NoError(t, err)
	t.Cleanup(kdc.Kill)
	require.NoError(t, kdc.AddService("acceptor", "nfs/server.test.example"))
	require.NoError(t, kdc.AddService("acceptor", "host/server.test.example"))
	require.NoError(t, kdc.addUser("alice"))
	peer, err := startPeer(kdc, os.Stderr)
	require.NoError(t, err)
	t.Cleanup(peer.Close)
	r := &testRealm{T: t, kdc: kdc, peer: peer}
	r.acceptor = r.newAcceptor("acceptor")
	return r
}

func (r *testRealm) newAcceptor(keytab string) *krb5.Acceptor {
	r.Helper()
	a, err := krb5.NewAcceptor(r.Context(), krb5.Config{Keytab: r.kdc.Keytab(keytab), Now: func() time.Time { return time.Now().Add(r.ahead) }})
	require.NoError(r, err)
	return a
}

func (r *testRealm) initiateContext(flags ...string) []byte {
	r.Helper()
	token, err := r.peer.initiateContext(initiation{Service: server, Flags: flags})
	require.NoError(r, err)
	return token
}

// expectRejected expects words of the acceptor, and hands the KRB-ERROR to MIT's library,
// which has words as well.
func (r *testRealm) expectRejected(err error, major gss.Major, words, mit string) {
	r.Helper()
	var ge *gss.Error
	require.ErrorAs(r, err, &ge)
	assert.Equal(r, major, ge.Major)
	assert.Contains(r, err.Error(), words)
	assert.ErrorContains(r, r.peer.Complete(ge.Token), mit)
}

// TestKerberosTokens has MIT's library make contexts with the acceptor, and pass
// tokens both ways, for each encryption type (R4121-2-2, R4121-4.1.1.1-2,
// R4121-4.2.4-1, R4121-E-1, R4121-E-2).
func TestKerberosTokens(t *testing.T) {
	for e, name := range enctypes {
		t.Run(name, func(t *testing.T) {
			r := newRealm(t, name)
			accepted, err := r.acceptor.Accept(t.Context(), r.initiateContext(allFlags...), nil)
			require.NoError(t, err)
			assert.Equal(t, gss.Principal{Name: []string{"alice"}, Realm: Realm}, accepted.Principal)
			assert.Equal(t, "krb5 "+e.String(), accepted.Context.Mechanism())
			assert.WithinDuration(t, time.Now().Add(10*time.Hour), accepted.Context.Expires(), 5*time.Minute)
			require.NoError(t, r.peer.Complete(accepted.Token))
			r.exchangeMessages(accepted.Context, uint64(e))
			r.writeGolden(name)

			// As rpc.gssd of Debian 13: the library's end is complete at once.
			accepted, err = r.acceptor.Accept(t.Context(), r.initiateContext("integrity", "confidentiality"), nil)
			require.NoError(t, err)
			assert.Empty(t, accepted.Token)
			r.exchangeMessages(accepted.Context, 0)

			lucid, err := r.peer.establishPair(initiation{Service: server, Flags: allFlags})
			require.NoError(t, err)
			key, err := hex.DecodeString(lucid.Key)
			require.NoError(t, err)
			initiator, err := krb5.NewContext(krb5.Establishment{
				Key: krb5.Key{Enctype: krb5.Enctype(lucid.Enctype), Value: key}, AcceptorSubkey: lucid.Subkey,
				Sequence: lucid.Sequence, Expires: time.Unix(lucid.End, 0),
			})
			require.NoError(t, err)
			r.exchangeMessages(initiator, uint64(e))

			// Without the mutual flag MIT's acceptor asserts no subkey.
			lucid, err = r.peer.establishPair(initiation{Service: server, Flags: []string{"integrity", "confidentiality"}})
			require.NoError(t, err)
			assert.False(t, lucid.Subkey)
			key, err = hex.DecodeString(lucid.Key)
			require.NoError(t, err)
			initiator, err = krb5.NewContext(krb5.Establishment{Key: krb5.Key{Enctype: krb5.Enctype(lucid.Enctype), Value: key}, Sequence: lucid.Sequence})
			require.NoError(t, err)
			r.exchangeMessages(initiator, 0)
		})
	}
}

// exchangeMessages passes messages both ways between c and the peer: of the sizes around
// blocks, large ones, and random ones, in random slices.
func (r *testRealm) exchangeMessages(c gss.Context, seed uint64) {
	r.Helper()
	source := rand.New(rand.NewPCG(seed, 1))
	var sizes []int
	for n := range 70 {
		sizes = append(sizes, n)
	}
	sizes = append(sizes, 4095, 65536, 1<<20-1, 1<<20)
	count := randoms
	if seed == 0 {
		count = 100
	}
	for range count {
		sizes = append(sizes, source.IntN(3000))
	}
	for _, n := range sizes {
		message := make([]byte, n)
		for i := range message {
			message[i] = byte(source.Uint32())
		}
		r.sendMessage(c, source, message)
		r.receiveMessage(c, source, message)
	}
	clear, err := r.peer.wrapClear(bytes.Repeat([]byte("not encrypted"), 10))
	require.NoError(r, err)
	_, err = c.Unwrap([][]byte{clear})
	assert.ErrorContains(r, err, "not encrypted") // R4121-4.2.4-4
}

// sendMessage passes a message from c to the peer.
func (r *testRealm) sendMessage(c gss.Context, source *rand.Rand, message []byte) {
	r.Helper()
	before, after := c.WrapOverhead()
	token := make([]byte, before+len(message)+after)
	text := token[before : before+len(message)]
	copy(text, message)
	require.NoError(r, c.Wrap(token[:before], cutSlices(source, text), token[before+len(message):]))
	got, err := r.peer.Unwrap(token)
	require.NoError(r, err)
	require.True(r, bytes.Equal(message, got))

	signed, err := c.AppendMIC(nil, cutSlices(source, message))
	require.NoError(r, err)
	require.NoError(r, r.peer.verifyMessage(signed, message))
}

// receiveMessage passes a message from the peer to c, in tokens without rotation and
// with it.
func (r *testRealm) receiveMessage(c gss.Context, source *rand.Rand, message []byte) {
	r.Helper()
	for _, wrap := range []func([]byte) ([]byte, error){r.peer.Wrap, r.peer.wrapRotated} {
		token, err := wrap(message)
		require.NoError(r, err)
		got, err := c.Unwrap(cutSlices(source, token))
		require.NoError(r, err)
		require.True(r, bytes.Equal(message, bytes.Join(got, nil)))
	}
	signed, err := r.peer.signMessage(message)
	require.NoError(r, err)
	require.NoError(r, c.VerifyMIC(signed, cutSlices(source, message)))
}

// cutSlices cuts b into one to seven slices.
func cutSlices(source *rand.Rand, b []byte) [][]byte {
	var list [][]byte
	for n := source.IntN(7); n > 0; n-- {
		at := source.IntN(len(b) + 1)
		list, b = append(list, b[:at]), b[at:]
	}
	return append(list, b)
}

// TestKerberosRotation checks that the peer's rotated tokens are so.
func TestKerberosRotation(t *testing.T) {
	r := newRealm(t, enctypes[krb5.AES256SHA1])
	accepted, err := r.acceptor.Accept(t.Context(), r.initiateContext(allFlags...), nil)
	require.NoError(t, err)
	require.NoError(t, r.peer.Complete(accepted.Token))
	token, err := r.peer.wrapRotated([]byte("message"))
	require.NoError(t, err)
	assert.NotEqual(t, []byte{0, 0}, token[6:8])
}

// TestKerberosRefusals has the acceptor refuse tokens of MIT's library, which
// understands the reason: replays, clocks that differ, and keys that are not in
// the keytab (R4121-7-1).
func TestKerberosRefusals(t *testing.T) {
	r := newRealm(t, enctypes[krb5.AES256SHA1])
	accept := func(token, bindings []byte) error {
		_, err := r.acceptor.Accept(t.Context(), token, bindings)
		return err
	}

	token := r.initiateContext(allFlags...)
	require.NoError(t, accept(bytes.Clone(token), nil))
	r.expectRejected(accept(token, nil), gss.DuplicateToken, "alice@TEST.EXAMPLE: the token was sent before", "replay")

	r.ahead = 6*time.Minute + 30*time.Second
	r.expectRejected(accept(r.initiateContext(allFlags...), nil), gss.Failure, "the clocks of client and server differ by 7 minutes (limit 5)", "Clock skew too great")
	r.ahead = -4 * time.Minute
	require.NoError(t, accept(r.initiateContext(allFlags...), nil))
	r.ahead = 0

	bound, err := r.peer.initiateContext(initiation{Service: server, Flags: allFlags, Bindings: hex.EncodeToString([]byte("tls-exporter:right"))})
	require.NoError(t, err)
	r.expectRejected(accept(bound, nil), gss.BadBindings, "bound to TLS", "")
	r.expectRejected(accept(bound, []byte("tls-exporter:wrong")), gss.BadBindings, "another TLS session", "")
	require.NoError(t, accept(bound, []byte("tls-exporter:right"))) // R4121-4.1.1.2-1

	delegated := r.initiateContext(append([]string{"delegate"}, allFlags...)...) // R4121-4.1.1-3
	require.NoError(t, accept(delegated, nil))

	host, err := r.peer.initiateContext(initiation{Service: "host@server.test.example", Flags: allFlags})
	require.NoError(t, err)
	r.expectRejected(accept(host, nil), gss.NoCred, "a client has a ticket for host/server.test.example: only tickets for nfs/ are accepted", "ticket isn't for us")

	_, err = krb5.NewAcceptor(t.Context(), krb5.Config{Keytab: r.hostKeytab(), Now: time.Now})
	assert.EqualError(t, err, fmt.Sprintf("the keytab %s has no nfs/ key; it has host/other.test.example", r.kdc.Keytab("host")))

	require.NoError(t, r.kdc.AddService("other", "nfs/other.test.example"))
	r.acceptor = r.newAcceptor("other")
	r.expectRejected(accept(r.initiateContext(allFlags...), nil), gss.NoCred,
		"a client has a ticket for nfs/server.test.example@TEST.EXAMPLE; the keytab has nfs/other.test.example@TEST.EXAMPLE: add it with ktadd", "")
}

func (r *testRealm) hostKeytab() string {
	r.Helper()
	require.NoError(r, r.kdc.AddService("host", "host/other.test.example"))
	return r.kdc.Keytab("host")
}

// TestKerberosNewKeys changes the service's keys while clients hold tickets: with the old
// keys in the keytab old and new tickets are good, without a restart.
func TestKerberosNewKeys(t *testing.T) {
	r := newRealm(t, enctypes[krb5.AES256SHA1])
	accept := func() error {
		_, err := r.acceptor.Accept(t.Context(), r.initiateContext(allFlags...), nil)
		return err
	}
	require.NoError(t, accept())
	require.NoError(t, r.kdc.runAdmin("cpw -randkey -keepold nfs/server.test.example"))
	require.NoError(t, accept(), "the ticket is an old one")
	require.NoError(t, r.kdc.addUser("bob")) // a cache without service tickets
	r.expectRejected(accept(), gss.NoCred, "a client has a ticket for nfs/server.test.example with key version 2; the keytab has 1: "+
		"add it with ktadd (it is read again without a restart)", "")
	require.NoError(t, r.kdc.runAdmin("ktadd -k %s -norandkey nfs/server.test.example", r.kdc.Keytab("acceptor")))
	require.NoError(t, accept())
}

// writeGolden writes the bytes that unit tests compare with, if KERBEROS_GOLDEN names
// a directory: an AP-REQ with its time and keytab, and tokens of a context with
// its key. Each has its length in two bytes in front.
func (r *testRealm) writeGolden(name string) {
	dir := os.Getenv("KERBEROS_GOLDEN")
	if dir == "" {
		return
	}
	r.Helper()
	var text strings.Builder
	fmt.Fprintf(&text, "# MIT krb5 1.20.1 of Debian 12, %s; each field has its length in two bytes in front\n", name)
	add := func(field []byte, err error, what string) {
		require.NoError(r, err)
		fmt.Fprintf(&text, "%04x # %s\n", len(field), what)
		for line := range slices.Chunk(field, 48) {
			fmt.Fprintf(&text, "%x\n", line)
		}
	}
	keytab, err := os.ReadFile(r.kdc.Keytab("acceptor"))
	add(binary.BigEndian.AppendUint64(nil, uint64(time.Now().Unix())), nil, "seconds since 1970")
	add(keytab, err, "keytab: nfs/server.test.example and host/server.test.example")
	add(r.initiateContext(allFlags...), nil, "first token of alice")
	lucid, err := r.peer.establishPair(initiation{Service: server, Flags: allFlags})
	require.NoError(r, err)
	require.True(r, lucid.Subkey)
	key, err := hex.DecodeString(lucid.Key)
	add(key, err, "subkey of MIT's acceptor, whose tokens follow")
	for _, message := range []string{"", "message", "a message of MIT's library that is longer than two blocks of the cipher"} {
		token, err := r.peer.signMessage([]byte(message))
		add(token, err, fmt.Sprintf("MIC of %q", message))
		token, err = r.peer.Wrap([]byte(message))
		add(token, err, fmt.Sprintf("Wrap of %q", message))
		token, err = r.peer.wrapRotated([]byte(message))
		add(token, err, fmt.Sprintf("Wrap of %q, rotated", message))
	}
	require.NoError(r, os.WriteFile(filepath.Join(dir, name+".hex"), []byte(text.String()), 0o600))
}
