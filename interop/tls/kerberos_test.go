//go:build interop

package tls

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/certtest"
	"github.com/nfsrdma/nfsrdma/interop/kerberos"
)

// TestTLSKerberos has users of Linux work with Kerberos inside of TLS: the certificate is
// the host's, and the files are those of the users that the principals have on the server.
// rpc.gssd establishes the contexts unencrypted, which no mount can change.
func TestTLSKerberos(t *testing.T) {
	realm := t.TempDir()
	kdc, err := kerberos.StartKDC(realm, "aes256-cts-hmac-sha1-96")
	require.NoError(t, err)
	t.Cleanup(kdc.Kill)
	require.NoError(t, kdc.Populate())
	s := newSite(t, map[string]string{"both": "sec=krb5p,xprtsec=mtls"},
		"--keytab", kdc.Keytab("acceptor"), "--idmap", certtest.Write(t, realm, "idmapd.conf", []byte(kerberos.Idmap)))
	require.NoError(t, kdc.Join(t.Context(), s.Guest))
	t.Cleanup(func() {
		out, _ := s.Try("killall rpc.gssd; tail -n 60 /tmp/gssd.log")
		if t.Failed() {
			t.Logf("rpc.gssd says:\n%s", out)
		}
	})
	for _, vers := range []string{"3", "4.2"} {
		t.Run(vers, func(t *testing.T) {
			s := s.withTest(t)
			assert.Regexp(t, "access denied|not permitted", s.expectRejected(s.exportPath("both"), s.mountOptions(vers, "tls")+",sec=krb5p"))
			assert.Regexp(t, "access denied|not permitted", s.expectRejected(s.exportPath("both"), s.mountOptions(vers, "mtls")+",sec=sys"))
			s.mountExport("both", "/mnt", vers, "mtls", "sec=krb5p")
			assert.Contains(t, s.Must("grep ' /mnt ' /proc/mounts"), "sec=krb5p")
			dir := "/mnt/" + vers
			s.May("alice", "umask 022; mkdir %s; umask 077; echo \"%s\" >%s/a; cat %[3]s/a", dir, mark, dir)
			s.May("bob", "umask 077; echo \"%s\" >/mnt/b%s", mark, vers)
			s.MayNot("bob", "cat %s/a", dir)
			s.MayNot("carol", "ls %s", dir)
			s.Must("umount /mnt")
			for file, uid := range map[string]uint32{vers: 1, vers + "/a": 1, "b" + vers: 2} {
				info, err := os.Stat(filepath.Join(s.base, "both", file))
				require.NoError(t, err)
				assert.Equal(t, uid, info.Sys().(*syscall.Stat_t).Uid, file)
			}
		})
	}
	protected, size, clear := s.observed(t)
	t.Logf("%d connections with %d bytes in TLS, %d unencrypted", protected, size, clear)
	assert.Contains(t, s.daemonLog(), "CN=root")
}
