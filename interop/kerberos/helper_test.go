//go:build interop

package kerberos

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/interop"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss/krb5"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss/tickets/wire"
)

var allEnctypes = []uint32{20, 19, 18, 17}

// runHelper has the helper make a context with r's acceptor. The first context is that
// of the helper's keys.
func (r *testRealm) runHelper(helper string, q wire.Request, env ...string) (gss.Context, gss.Accepted, *wire.Keys, error) {
	r.Helper()
	return r.runHelperBound(helper, q, nil, env...)
}

// runHelperBound is helped by a connection with channel bindings at the acceptor.
func (r *testRealm) runHelperBound(helper string, q wire.Request, bindings []byte, env ...string) (gss.Context, gss.Accepted, *wire.Keys, error) {
	r.Helper()
	in, ours, err := os.Pipe()
	require.NoError(r, err)
	theirs, out, err := os.Pipe()
	require.NoError(r, err)
	var stderr strings.Builder
	cmd := exec.Command(helper)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = append(r.kdc.environ(), env...), in, out, &stderr
	p, err := interop.StartProcess(cmd)
	require.NoError(r, err)
	in.Close()
	out.Close()
	defer func() {
		ours.Close()
		theirs.Close()
		assert.Zero(r, p.ExitCode(), stderr.String())
	}()
	require.NoError(r, wire.Write(ours, &q))
	var accepted gss.Accepted
	for {
		m, err := wire.Read(theirs)
		require.NoError(r, err, stderr.String())
		switch m := m.(type) {
		case *wire.Token:
			if accepted, err = r.acceptor.Accept(r.Context(), m.Token, bindings); err != nil {
				accepted.Token = err.(*gss.Error).Token
			}
			require.NoError(r, wire.Write(ours, &wire.Token{Token: accepted.Token}))
		case *wire.Failure:
			return nil, accepted, nil, m
		case *wire.Keys:
			_, err := wire.Read(theirs)
			assert.Equal(r, io.EOF, err)
			c, err := krb5.NewContext(krb5.Establishment{
				Key: krb5.Key{Enctype: krb5.Enctype(m.Enctype), Value: m.Key}, AcceptorSubkey: m.Subkey,
				Sequence: m.Sequence, Expires: time.Unix(int64(m.Expires), 0),
			})
			require.NoError(r, err)
			return c, accepted, m, nil
		}
	}
}

// checkSameKeys checks that both contexts have the same keys.
func checkSameKeys(t *testing.T, a, b gss.Context) {
	t.Helper()
	message := [][]byte{[]byte("a message")}
	for _, ends := range [][2]gss.Context{{a, b}, {b, a}} {
		mic, err := ends[0].AppendMIC(nil, message)
		require.NoError(t, err)
		require.NoError(t, ends[1].VerifyMIC(mic, message))
	}
}

// TestHelper has nfsrdma-gss make contexts from caches of each kind, for each
// encryption type.
func TestHelper(t *testing.T) {
	helper := programPath(t, "nfsrdma-gss")
	for e, name := range enctypes {
		t.Run(name, func(t *testing.T) {
			r := newRealm(t, name)
			c, accepted, keys, err := r.runHelper(helper, wire.Request{Service: server, Caches: []string{""}, Enctypes: allEnctypes})
			require.NoError(t, err)
			checkSameKeys(t, c, accepted.Context)
			assert.Equal(t, "alice@"+Realm, keys.User)
			assert.EqualValues(t, e, keys.Enctype)
			assert.True(t, keys.Subkey)
			assert.WithinDuration(t, time.Now().Add(10*time.Hour), c.Expires(), 5*time.Minute)
		})
	}
	r := newRealm(t, enctypes[krb5.AES256SHA1])
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "collection"), 0o700))
	for _, cache := range []string{"FILE:" + dir + "/file", "DIR:" + dir + "/collection", "KEYRING:session:nfsrdma-test"} {
		t.Run(strings.SplitN(cache, ":", 2)[0], func(t *testing.T) {
			require.NoError(t, r.kdc.runCommand("secret\n", "kinit", "-c", cache, "alice"))
			for range 2 {
				c, accepted, _, err := r.runHelper(helper, wire.Request{Service: server, Caches: []string{"FILE:" + dir + "/none", cache}, Enctypes: allEnctypes})
				require.NoError(t, err)
				checkSameKeys(t, c, accepted.Context)
			}
		})
	}
}

// TestHelperBindings has nfsrdma-gss bind contexts to TLS, by MIT's library
// (R9289-4.2.1-1): they are good for no other connection.
func TestHelperBindings(t *testing.T) {
	helper, r := programPath(t, "nfsrdma-gss"), newRealm(t, enctypes[krb5.AES256SHA1])
	ours, theirs := []byte("tls-exporter:ours"), []byte("tls-exporter:theirs")
	for _, tt := range []struct {
		client, server []byte
		good           bool
	}{
		{ours, ours, true},
		{nil, ours, true}, // as of Linux
		{nil, nil, true},
		{ours, theirs, false},
		{ours, nil, false},
	} {
		c, accepted, _, err := r.runHelperBound(helper, wire.Request{Service: server, Caches: []string{""}, Enctypes: allEnctypes, Bindings: tt.client}, tt.server)
		if tt.good {
			require.NoError(t, err)
			checkSameKeys(t, c, accepted.Context)
			continue
		}
		assert.Error(t, err, "%s at %s", tt.client, tt.server)
		assert.Nil(t, accepted.Context)
	}
}

// TestHelperKeytab has nfsrdma-gss get tickets by a keytab.
func TestHelperKeytab(t *testing.T) {
	helper, r := programPath(t, "nfsrdma-gss"), newRealm(t, enctypes[krb5.AES256SHA1])
	require.NoError(t, r.kdc.AddService("machine", "host/client.test.example"))
	require.NoError(t, r.kdc.AddService("machine", "nfs/client.test.example"))
	for names, want := range map[string]string{
		"CLIENT$ nfs/client.test.example host/client.test.example": "nfs/client.test.example@" + Realm,
		"CLIENT$ ": "host/client.test.example@" + Realm,
	} {
		c, accepted, keys, err := r.runHelper(helper, wire.Request{Service: server, Keytab: r.kdc.Keytab("machine"), Principals: strings.Split(names, " "), Enctypes: allEnctypes})
		require.NoError(t, err)
		checkSameKeys(t, c, accepted.Context)
		assert.Equal(t, want, keys.User)
	}
	_, _, _, err := r.runHelper(helper, wire.Request{Service: server, Keytab: "/nonexistent", Principals: []string{""}})
	assert.EqualError(t, err, "the keytab /nonexistent cannot be read (no such file or directory): correct its name or its permissions")
	_, _, _, err = r.runHelper(helper, wire.Request{Service: server, Keytab: r.kdc.Keytab("machine"), Principals: []string{"CLIENT$"}})
	assert.ErrorContains(t, err, "no ticket from the keytab "+r.kdc.Keytab("machine"))
}

// TestHelperWords checks the words of failures.
func TestHelperWords(t *testing.T) {
	helper, r := programPath(t, "nfsrdma-gss"), newRealm(t, enctypes[krb5.AES256SHA1])
	dir := t.TempDir()
	fails := func(reason wire.Reason, words string, q wire.Request, env ...string) {
		t.Helper()
		_, _, _, err := r.runHelper(helper, q, env...)
		var f *wire.Failure
		require.ErrorAs(t, err, &f)
		assert.Equal(t, reason, f.Reason)
		assert.Contains(t, f.Text, words)
	}
	none := "FILE:" + dir + "/none"
	fails(wire.NoTicket, "no ticket ("+none+"): run kinit", wire.Request{Service: server, Caches: []string{none}})
	fails(wire.NoTicket, "no ticket ("+none+"): run kinit", wire.Request{Service: server, Caches: []string{""}}, "KRB5CCNAME="+none)
	fails(wire.NoService, "the KDC does not know nfs@nowhere.test.example", wire.Request{Service: "nfs@nowhere.test.example", Caches: []string{""}})
	r.ahead = 6*time.Minute + 30*time.Second
	fails(wire.Clock, "the clocks of client and server differ by 7 minutes (limit 5)", wire.Request{Service: server, Caches: []string{""}})
	r.ahead = 0

	// Configured so, the library would ask DNS for another name of the host.
	config, err := os.ReadFile(r.kdc.dir + "/krb5.conf")
	require.NoError(t, err)
	text := strings.NewReplacer("dns_canonicalize_hostname = false", "dns_canonicalize_hostname = true", "rdns = false", "rdns = true").Replace(string(config))
	require.NoError(t, os.WriteFile(dir+"/krb5.conf", []byte(text), 0o600))
	fails(wire.NoService, "nfs/127.0.0.1@", wire.Request{Service: "nfs@127.0.0.1", Caches: []string{""}}, "KRB5_CONFIG="+dir+"/krb5.conf")

	expired := "FILE:" + dir + "/expired"
	require.NoError(t, r.kdc.runCommand("secret\n", "kinit", "-l", "2s", "-c", expired, "alice"))
	for until := time.Now().Add(30 * time.Second); ; { // until it has
		require.True(t, time.Now().Before(until))
		if _, _, _, err := r.runHelper(helper, wire.Request{Service: server, Caches: []string{expired}}); err != nil {
			break
		}
	}
	fails(wire.Expired, "your ticket expired ", wire.Request{Service: server, Caches: []string{none, expired}})
	c, accepted, _, err := r.runHelper(helper, wire.Request{Service: server, Caches: []string{expired, ""}})
	require.NoError(t, err)
	checkSameKeys(t, c, accepted.Context)

	require.NoError(t, r.kdc.runCommand("secret\n", "kinit", "alice"))
	r.kdc.Kill()
	fails(wire.NoKDC, "no KDC responds", wire.Request{Service: server, Caches: []string{""}})
}
