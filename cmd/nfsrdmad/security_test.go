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

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver/idmap"
	"github.com/nfsrdma/nfsrdma/oncrpc/gss"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcsec"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
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
	g := newReloadTest(t, "./a *(rw)\n")
	g.options.owners = idmap.New(idmap.Config{Database: fakeUserDatabase{}})
	t.Cleanup(g.options.owners.Close)
	g.options.idmapFile = filepath.Join(g.dir, "idmapd.conf")
	require.NoError(t, os.WriteFile(g.options.idmapFile, nil, 0o600))
	keys := append([]byte{5, 2}, keytabEntry("A.EXAMPLE", "nfs", "a.example")...)
	require.NoError(t, os.WriteFile(g.options.kerberos.keytab, append(keys, keytabEntry("B.EXAMPLE", "nfs", "a.example")...), 0o600))
	done, log := g.reloadText("./a *(rw)\n./b *(sec=krb5)\n")
	assert.False(t, done)
	assert.Contains(t, log, "the keytab has keys for the realms A.EXAMPLE, B.EXAMPLE")
	assert.Contains(t, log, "Local-Realms")
	require.NoError(t, os.WriteFile(g.options.idmapFile, []byte("[General]\nLocal-Realms = B.EXAMPLE\n"), 0o600))
	done, log = g.reloadText("./a *(rw)\n./b *(sec=krb5)\n")
	require.True(t, done, log)
	for realm, want := range map[string]bool{"A.EXAMPLE": false, "B.EXAMPLE": true} {
		_, ok, err := g.options.mapPrincipal(t.Context(), netip.MustParseAddr("192.0.2.1"), gss.Principal{Name: []string{"alice"}, Realm: realm})
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
	s := startDaemon(t, "--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0", "--keytab", keytab, "--sec", "krb5p", "--control", socket, t.TempDir()+"=/x")
	c, err := net.Dial("tcp", s.transportAddr(t, "tcp"))
	require.NoError(t, err)
	defer c.Close()
	r := parseAccepted(t, tcpCall(t, c, initCall(1, "no token")), 1, 0)
	assert.Empty(t, r.Opaque(16), "handle")
	assert.Equal(t, uint32(gss.DefectiveToken), r.Uint32(), "major status")

	status, stdout, stderr := runCommand(t, "status", "--control", socket)
	assert.Equal(t, []any{cli.ExitOK, ""}, []any{status, stderr})
	assert.Contains(t, stdout, "0 contexts now, 0 in total; calls: krb5 0, krb5i 0, krb5p 0")
	assert.Contains(t, stdout, "contexts rejected, by reason: other 1")
	assert.Contains(t, stdout, "SECURITY CONTEXTS\nnone\n")
	s.stop()
	ended := <-s.status
	s.status <- ended
	assert.Contains(t, s.stderr.String(), "Linux clients cannot mount /x over RDMA with Kerberos: their rpc.gssd connects to TCP port 2049; serve it with --tcp :2049")

	s = startDaemon(t, "--listen", "127.0.0.1:0", "--tcp", "127.0.0.1:0", "--keytab", keytab+"x", "--control", socket, t.TempDir()+"=/x")
	c, err = net.Dial("tcp", s.transportAddr(t, "tcp"))
	require.NoError(t, err)
	defer c.Close()
	reply := xdr.NewReader(tcpCall(t, c, initCall(1, "no token")))
	for _, want := range []uint32{1, 1, 1, 1, 1} { // XID, REPLY, MSG_DENIED, AUTH_ERROR, AUTH_BADCRED
		assert.Equal(t, want, reply.Uint32())
	}
	_, stdout, _ = runCommand(t, "status", "--control", socket)
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
	s := startDaemon(t, "--listen", "127.0.0.1:0", "--tcp", "", "--keytab", keytab, "--sec", "krb5p", t.TempDir()+"=/x")
	s.stop()
	ended := <-s.status
	s.status <- ended
	assert.Contains(t, s.stderr.String(), "Linux clients cannot mount /x over RDMA with Kerberos: their rpc.gssd connects to TCP port 2049; serve it with --tcp :2049")
}

// TestReloadKerberos checks that SIGHUP turns Kerberos on for a new export, reads
// the keytab again, and keeps the keys if that cannot be used; and that without
// idmapd.conf the realms of the keytab are those of the users.
func TestReloadKerberos(t *testing.T) {
	g := newReloadTest(t, "./a *(rw)\n")
	g.options.owners = idmap.New(idmap.Config{Database: fakeUserDatabase{}})
	t.Cleanup(g.options.owners.Close)
	g.options.idmapFile = filepath.Join(g.dir, "idmapd.conf")
	require.NoError(t, os.WriteFile(g.options.idmapFile, nil, 0o600))
	user := func(realm string) (rpcsec.User, bool) {
		u, ok, err := g.options.mapPrincipal(t.Context(), netip.MustParseAddr("192.0.2.1"), gss.Principal{Name: []string{"alice"}, Realm: realm})
		require.NoError(t, err)
		return u, ok
	}
	done, log := g.reloadText("./a *(rw)\n./b *(sec=krb5)\n")
	assert.False(t, done)
	assert.Contains(t, log, "cannot be read")
	assert.True(t, g.options.kerberos.isOff())

	writeKeytab(t, g.options.kerberos.keytab, "EXAMPLE.ORG", "nfs", "a.example")
	require.NoError(t, os.WriteFile(g.options.idmapFile, []byte("x"), 0o600))
	for range 2 {
		done, log = g.reloadText("./a *(rw)\n./b *(sec=krb5)\n")
		assert.False(t, done, "without rules every principal would be nobody")
		assert.Contains(t, log, "idmapd.conf:1: ")
		assert.True(t, g.options.kerberos.isOff())
	}
	require.NoError(t, os.WriteFile(g.options.idmapFile, nil, 0o600))
	done, log = g.reloadText("./a *(rw)\n./b *(sec=krb5)\n")
	require.True(t, done, log)
	assert.False(t, g.options.kerberos.isOff())
	var cores unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_CORE, &cores))
	assert.LessOrEqual(t, cores.Cur, uint64(1), "a core would have keys in it")
	u, ok := user("EXAMPLE.ORG")
	assert.True(t, ok)
	assert.Equal(t, rpcsec.User{UID: 1001, GID: 100, GIDs: []uint32{7}}, u)
	_, ok = user("OTHER.EXAMPLE")
	assert.False(t, ok)

	var text bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&text, nil))
	writeKeytab(t, g.options.kerberos.keytab, "OTHER.EXAMPLE", "nfs", "a.example")
	_ = g.options.reloadAll(t.Context(), g.shares, logger)
	_, ok = user("OTHER.EXAMPLE")
	assert.True(t, ok, text.String())
	assert.Contains(t, text.String(), "the keytab was reloaded")

	require.NoError(t, os.WriteFile(g.options.kerberos.keytab, []byte("x"), 0o600))
	_ = g.options.kerberos.rereadKeytab(t.Context(), logger)
	assert.Contains(t, text.String(), "the Kerberos keys are unchanged")
	assert.Equal(t, []string{"OTHER.EXAMPLE"}, g.options.kerberos.acceptor.Load().Realms())
}

// fakeUserDatabase is a database with the user alice.
type fakeUserDatabase struct{}

func (fakeUserDatabase) Name(idmap.Kind, uint32) (string, bool, error) { return "", false, nil }
func (fakeUserDatabase) ID(idmap.Kind, string) (uint32, bool, error)   { return 0, false, nil }
func (fakeUserDatabase) User(name string) (idmap.Account, bool, error) {
	return idmap.Account{UID: 1001, GID: 100, Groups: []uint32{7}}, name == "alice", nil
}

var _ gss.Acceptor = (*kerberosAcceptor)(nil)

// TestMechanismOff checks that nothing is read before an export needs it.
func TestMechanismOff(t *testing.T) {
	o := serveOptions{}
	require.NoError(t, o.parseExportArgs([]string{"/srv"}))
	require.NoError(t, o.enableKerberos(context.Background(), o.exports))
	assert.True(t, o.kerberos.isOff())
}
