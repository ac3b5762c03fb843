package main

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/gss"
	"github.com/nfsrdma/nfsrdma/idmap"
	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/rpcsec"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// writeKeytab writes a keytab with one key, of aes256-cts-hmac-sha1-96.
func writeKeytab(t testing.TB, path, realm string, names ...string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, append([]byte{5, 2}, keytabEntry(realm, names...)...), 0o600))
}

// keytabEntry returns such a key as it is in a keytab.
func keytabEntry(realm string, names ...string) []byte {
	counted := func(b []byte, s string) []byte { return append(append(b, byte(len(s)>>8), byte(len(s))), s...) }
	e := counted([]byte{0, byte(len(names))}, realm)
	for _, n := range names {
		e = counted(e, n)
	}
	e = append(e, 0, 0, 0, 1, 0, 0, 0, 0, 3, 0, 18) // type of the name, time, version, encryption type
	e = counted(e, strings.Repeat("k", 32))
	return append([]byte{0, 0, 0, byte(len(e))}, e...)
}

// TestKeytabOfTwoRealms checks that principals of two realms never become one user only
// because the host has keys in both: idmapd.conf must say which realms are its own.
func TestKeytabOfTwoRealms(t *testing.T) {
	g := newReloadRig(t, "./a *(rw)\n")
	g.o.owners = idmap.New(idmap.Config{Database: oneUser{}})
	t.Cleanup(g.o.owners.Close)
	g.o.idmapFile = filepath.Join(g.dir, "idmapd.conf")
	require.NoError(t, os.WriteFile(g.o.idmapFile, nil, 0o600))
	keys := append([]byte{5, 2}, keytabEntry("A.EXAMPLE", "nfs", "a.example")...)
	require.NoError(t, os.WriteFile(g.o.kerberos.keytab, append(keys, keytabEntry("B.EXAMPLE", "nfs", "a.example")...), 0o600))
	done, log := g.reload("./a *(rw)\n./b *(sec=krb5)\n")
	assert.False(t, done)
	assert.Contains(t, log, "the keytab has keys of the realms A.EXAMPLE, B.EXAMPLE")
	assert.Contains(t, log, "Local-Realms")
	require.NoError(t, os.WriteFile(g.o.idmapFile, []byte("[General]\nLocal-Realms = B.EXAMPLE\n"), 0o600))
	done, log = g.reload("./a *(rw)\n./b *(sec=krb5)\n")
	require.True(t, done, log)
	for realm, want := range map[string]bool{"A.EXAMPLE": false, "B.EXAMPLE": true} {
		_, ok, err := g.o.userOf(t.Context(), netip.MustParseAddr("192.0.2.1"), gss.Principal{Name: []string{"alice"}, Realm: realm})
		require.NoError(t, err)
		assert.Equal(t, want, ok, realm)
	}
}

// initCall is a creation call of RPCSEC_GSS for NFS version 3 (RFC 2203, Section
// 5.2).
func initCall(xid uint32, token string) []byte {
	var b []byte
	for _, v := range []uint32{xid, 0, 2, nfs3.Program, 3, 0, 6, 20, 1, 1, 0, 1, 0, 0, 0} {
		b = xdr.AppendUint32(b, v)
	}
	return xdr.AppendOpaque(b, []byte(token))
}

// TestServeKerberos checks that a daemon with an export that takes Kerberos looks
// at the tokens of clients, that any other daemon denies them, that the status counts
// them, and that there is a warning if TCP has another port than clients of RDMA ask
// (R8166-8.2.2.1-1, R2203-RDMA-6, R7530-3.2.1-1).
func TestServeKerberos(t *testing.T) {
	keytab, socket := filepath.Join(t.TempDir(), "keytab"), filepath.Join(t.TempDir(), "socket")
	writeKeytab(t, keytab, "EXAMPLE.ORG", "nfs", "a.example")
	s := serve(t, "--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0", "--keytab", keytab, "--sec", "krb5p", "--control", socket, t.TempDir()+"=/x")
	c, err := net.Dial("tcp", s.addr(t, "tcp"))
	require.NoError(t, err)
	defer c.Close()
	r := accepted(t, tcpCall(t, c, initCall(1, "no token")), 1, 0)
	assert.Empty(t, r.Opaque(16), "handle")
	assert.Equal(t, uint32(gss.DefectiveToken), r.Uint32(), "major status")

	status, stdout, stderr := command(t, "status", "--control", socket)
	assert.Equal(t, []any{cli.ExitOK, ""}, []any{status, stderr})
	assert.Contains(t, stdout, "0 contexts of 0 so far; calls: krb5 0, krb5i 0, krb5p 0")
	assert.Contains(t, stdout, "contexts refused, by reason: other 1")
	assert.Contains(t, stdout, "SECURITY CONTEXTS\nnone\n")
	s.stop()
	ended := <-s.status
	s.status <- ended
	assert.Contains(t, s.stderr.String(), "Linux clients cannot mount /x over RDMA with Kerberos: their rpc.gssd asks TCP port 2049; serve that with --tcp :2049")

	s = serve(t, "--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0", "--keytab", keytab+"x", "--control", socket, t.TempDir()+"=/x")
	c, err = net.Dial("tcp", s.addr(t, "tcp"))
	require.NoError(t, err)
	defer c.Close()
	reply := xdr.NewReader(tcpCall(t, c, initCall(1, "no token")))
	for _, want := range []uint32{1, 1, 1, 1, 1} { // XID, REPLY, MSG_DENIED, AUTH_ERROR, AUTH_BADCRED
		assert.Equal(t, want, reply.Uint32())
	}
	_, stdout, _ = command(t, "status", "--control", socket)
	assert.NotContains(t, stdout, "kerberos")
	s.stop()
	ended = <-s.status
	s.status <- ended
	assert.NotContains(t, s.stderr.String(), "rpc.gssd")
}

// TestServeKerberosWithoutTCP checks that a daemon without TCP gives the same warning, and
// serves.
func TestServeKerberosWithoutTCP(t *testing.T) {
	keytab := filepath.Join(t.TempDir(), "keytab")
	writeKeytab(t, keytab, "EXAMPLE.ORG", "nfs", "a.example")
	s := serve(t, "--listen", "127.0.0.1:0", "--tcp", "", "--keytab", keytab, "--sec", "krb5p", t.TempDir()+"=/x")
	s.stop()
	ended := <-s.status
	s.status <- ended
	assert.Contains(t, s.stderr.String(), "Linux clients cannot mount /x over RDMA with Kerberos: their rpc.gssd asks TCP port 2049; serve that with --tcp :2049")
}

// TestReloadKerberos checks that SIGHUP turns Kerberos on for a new export, reads
// the keytab again, and keeps the keys if that cannot be used; and that without
// idmapd.conf the realms of the keytab are those of the users.
func TestReloadKerberos(t *testing.T) {
	g := newReloadRig(t, "./a *(rw)\n")
	g.o.owners = idmap.New(idmap.Config{Database: oneUser{}})
	t.Cleanup(g.o.owners.Close)
	g.o.idmapFile = filepath.Join(g.dir, "idmapd.conf")
	require.NoError(t, os.WriteFile(g.o.idmapFile, nil, 0o600))
	user := func(realm string) (rpcsec.User, bool) {
		u, ok, err := g.o.userOf(t.Context(), netip.MustParseAddr("192.0.2.1"), gss.Principal{Name: []string{"alice"}, Realm: realm})
		require.NoError(t, err)
		return u, ok
	}
	done, log := g.reload("./a *(rw)\n./b *(sec=krb5)\n")
	assert.False(t, done)
	assert.Contains(t, log, "cannot be read")
	assert.True(t, g.o.kerberos.off())

	writeKeytab(t, g.o.kerberos.keytab, "EXAMPLE.ORG", "nfs", "a.example")
	require.NoError(t, os.WriteFile(g.o.idmapFile, []byte("x"), 0o600))
	for range 2 {
		done, log = g.reload("./a *(rw)\n./b *(sec=krb5)\n")
		assert.False(t, done, "without rules every principal would be nobody")
		assert.Contains(t, log, "idmapd.conf:1: ")
		assert.True(t, g.o.kerberos.off())
	}
	require.NoError(t, os.WriteFile(g.o.idmapFile, nil, 0o600))
	done, log = g.reload("./a *(rw)\n./b *(sec=krb5)\n")
	require.True(t, done, log)
	assert.False(t, g.o.kerberos.off())
	var cores unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_CORE, &cores))
	assert.Zero(t, cores.Cur, "a core would have keys in it")
	u, ok := user("EXAMPLE.ORG")
	assert.True(t, ok)
	assert.Equal(t, rpcsec.User{UID: 1001, GID: 100, GIDs: []uint32{7}}, u)
	_, ok = user("OTHER.EXAMPLE")
	assert.False(t, ok)

	var text bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&text, nil))
	writeKeytab(t, g.o.kerberos.keytab, "OTHER.EXAMPLE", "nfs", "a.example")
	_ = g.o.reloadAll(t.Context(), g.shares, logger)
	_, ok = user("OTHER.EXAMPLE")
	assert.True(t, ok, text.String())
	assert.Contains(t, text.String(), "the keytab was read again")

	require.NoError(t, os.WriteFile(g.o.kerberos.keytab, []byte("x"), 0o600))
	_ = g.o.kerberos.reload(t.Context(), logger)
	assert.Contains(t, text.String(), "the keys of Kerberos stay as they were")
	assert.Equal(t, []string{"OTHER.EXAMPLE"}, g.o.kerberos.acceptor.Load().Realms())
}

// oneUser is a database with the user alice.
type oneUser struct{}

func (oneUser) Name(idmap.Kind, uint32) (string, bool, error) { return "", false, nil }
func (oneUser) ID(idmap.Kind, string) (uint32, bool, error)   { return 0, false, nil }
func (oneUser) User(name string) (idmap.Account, bool, error) {
	return idmap.Account{UID: 1001, GID: 100, Groups: []uint32{7}}, name == "alice", nil
}

// TestContextsText checks how contexts are shown, and that reasons with the same
// words count together.
func TestContextsText(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	d := &kerberosDoc{
		Contexts: 3, Made: 9, Calls: flavorsDoc{1, 2, 3}, Refused: refusals(map[uint32]uint64{37: 2, 39: 1, 60: 2, 1000: 1}),
		Expired: 4, Dropped: 5,
		List: []contextDoc{
			{Principal: "alice@EXAMPLE.ORG", Client: "192.0.2.1/32", UID: 1001, Mechanism: "krb5 aes256", Ends: now.Add(90 * time.Minute)},
			{Principal: "host/b@EXAMPLE.ORG", Client: "192.0.2.2/32", UID: -1, Mechanism: "krb5 aes128", Ends: now.Add(-time.Minute), CallsUnderWay: 2},
		},
	}
	assert.Equal(t, []refusalDoc{{"malformed", 3}, {"clocks", 2}, {"other", 1}}, d.Refused)
	var out bytes.Buffer
	require.NoError(t, (&statusDoc{Kerberos: d}).print(&out, now))
	for _, want := range []string{
		"3 contexts of 9 so far; calls: krb5 1, krb5i 2, krb5p 3\n", "contexts refused, by reason: malformed 3, clocks 2, other 1\n",
		"4 contexts expired, 5 dropped as old or repeated\n", "alice@EXAMPLE.ORG   1001    192.0.2.1/32", "1 h 30 min  0\n", "host/b@EXAMPLE.ORG  nobody", "and 1 more\n",
	} {
		assert.Contains(t, out.String(), want)
	}
}

var _ gss.Acceptor = (*mechanism)(nil)

// TestMechanismOff checks that nothing is read before an export needs it.
func TestMechanismOff(t *testing.T) {
	o := serveOptions{}
	require.NoError(t, o.understandExports([]string{"/srv"}))
	require.NoError(t, o.secure(context.Background(), o.exports))
	assert.True(t, o.kerberos.off())
}
