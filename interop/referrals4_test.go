//go:build interop

package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// otherEthernet is a second address of the host, for another server.
const otherEthernet = "10.0.4.3"

// TestReferrals4 checks that Linux follows referrals of nfsrdmad to another nfsrdmad
// and to knfsd, and that a reload sends the client elsewhere.
func TestReferrals4(t *testing.T) {
	sharedGuest(t)
	onEthernet(t)
	dir := reachableDir(t)
	onHost(t, dir, `for d in a away knfsd there else; do mkdir $d; chmod 777 $d; echo $d >$d/name; done`)
	ip := shared.ethernet.inNamespace(t, "ip")
	onHost(t, "/", ip+" addr add "+otherEthernet+"/24 dev tap0")
	mustInGuest(t, "knfsd stop; knfsd start; echo knfsd >/export/name")
	said := new(sharedBuffer)
	t.Cleanup(func() {
		tryInGuest(t, "grep ' nfs4 ' /proc/mounts | cut -d' ' -f2 | sort -r | xargs -r -n 1 umount -l; rm -f /export/name")
		onHost(t, "/", ip+" addr del "+otherEthernet+"/24 dev tap0")
		if t.Failed() {
			t.Logf("nfsrdmad says:\n%s", said)
		}
	})
	file := filepath.Join(t.TempDir(), "exports")
	export := func(refer string) {
		text := fmt.Sprintf("%[1]s/a *(rw,insecure)\n%[1]s/away *(rw,insecure,refer=%[2]s)\n%[1]s/a/below *(rw,insecure,refer=%[2]s)\n%[1]s/knfsd *(rw,insecure,refer=/@%[3]s)\n",
			dir, strings.ReplaceAll(refer, "DIR", dir), guestEthernet)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	onHost(t, dir, "mkdir a/below")
	serve := func(addr string, args ...string) *Server {
		d, err := StartServer(said, shared.ethernet.inNamespace(t, programPath("nfsrdmad")),
			append([]string{"--control", "", "--listen", addr + ":20049", "--tcp", addr + ":2049", "--state", t.TempDir()}, args...)...)
		require.NoError(t, err, "nfsrdmad says: %s", said)
		t.Cleanup(d.Kill)
		return d
	}
	export("DIR/there@" + otherEthernet)
	d := serve(hostEthernet, "--exports", file)
	serve(otherEthernet, "--no-root-squash", dir+"/there", dir+"/else")

	mountGuest4(t, "", hostEthernet+":/", "/mnt")
	at := "/mnt" + dir
	assert.Equal(t, "a\naway\nknfsd\n", mustInGuest(t, "ls "+at))
	assert.Equal(t, "there\n", mustInGuest(t, "cat "+at+"/away/name"))
	assert.Equal(t, "there\n", mustInGuest(t, "cat "+at+"/a/below/name"), "within an export")
	assert.Equal(t, "knfsd\n", mustInGuest(t, "cat "+at+"/knfsd/name"))
	mounts := mustInGuest(t, "grep ' nfs4 ' /proc/mounts")
	t.Log(mounts)
	assert.Contains(t, mounts, otherEthernet+":"+dir+"/there "+at+"/away ")
	assert.Contains(t, mounts, guestEthernet+":/ "+at+"/knfsd ")
	mustInGuest(t, fmt.Sprintf("echo new >%s/away/new && [ $(cat %[1]s/a/below/new) = new ] && rm %[1]s/away/new && cd %[1]s/away && cd .. && ls a", at))
	assert.NoFileExists(t, filepath.Join(dir, "away", "new"))
	unmountAll4(t)

	export("DIR/else@" + otherEthernet)
	d.Signal(syscall.SIGHUP)
	require.Eventually(t, func() bool {
		return strings.Contains(said.String(), "the exports were reloaded")
	}, daemonLimit, pollEvery)
	mountGuest4(t, "", hostEthernet+":/", "/mnt")
	assert.Equal(t, "else\n", mustInGuest(t, "cat "+at+"/away/name"))
	unmountAll4(t)
	out, status := tryInGuest(t, "mount -t nfs -o vers=3,nolock,port=2049,mountport=2049,mountproto=tcp,proto=tcp "+hostEthernet+":"+dir+"/away /mnt")
	assert.NotZero(t, status, out)
	assert.Contains(t, out, "access denied")
}
