//go:build interop

package interop

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/interop/workload"
)

// A guestSite is a directory that a server serves to the guest.
type guestSite struct {
	host   string // the server's address as seen by the guest
	export string
	rdma   int    // port of NFS over RDMA
	tcp    int    // port of NFS over TCP
	mountd int    // port of MOUNT over TCP
	vers   string // NFS version: "4.1" or "4.2"; empty means 3
	servedDir
}

// A servedDir is the served directory, accessed without the server.
type servedDir interface {
	readManifest(t *testing.T, sub string) string
	runShell(t *testing.T, script string) // in the directory
}

// mountOptions are the mount options for a transport, with more if wanted.
func (s guestSite) mountOptions(transport string, more ...string) string {
	port := map[string]int{"rdma": s.rdma, "tcp": s.tcp}[transport]
	o := fmt.Sprintf("vers=3,nolock,proto=%s,port=%d,mountport=%d,mountproto=tcp", transport, port, s.mountd)
	if s.vers != "" {
		o = fmt.Sprintf("vers=%s,proto=%s,port=%d", s.vers, transport, port)
	}
	return strings.Join(append([]string{o}, more...), ",")
}

// withVersion returns the site for mounts by a version of NFS.
func (s guestSite) withVersion(vers string) guestSite {
	s.vers = vers
	return s
}

// mountInGuest mounts the site in the guest until the test ends or calls umount.
func (s guestSite) mountInGuest(t testing.TB, point, options string) {
	t.Helper()
	mustInGuest(t, fmt.Sprintf("mkdir -p %[1]s; mount.nfs %[2]s:%[3]s %[1]s -o %[4]s", point, s.host, s.export, options))
	t.Cleanup(func() {
		if t.Failed() {
			// Open files on the mount may hang; nothing waits for them.
			tryInGuest(t, fmt.Sprintf("umount -f %[1]s; umount -l %[1]s; :", point))
		}
	})
}

func unmountInGuest(t testing.TB, point string) {
	t.Helper()
	mustInGuest(t, "umount "+point)
}

// guestDir is a directory of the guest, served by knfsd.
type guestDir string

func (d guestDir) readManifest(t *testing.T, sub string) string {
	return mustInGuest(t, fmt.Sprintf("guestwork manifest %s/%s", d, sub))
}

func (d guestDir) runShell(t *testing.T, script string) {
	mustInGuest(t, fmt.Sprintf("cd %s && %s", d, script))
}

// hostDir is a directory of the host, served by nfsrdmad.
type hostDir string

func (d hostDir) readManifest(t *testing.T, sub string) string {
	var b strings.Builder
	require.NoError(t, workload.Manifest(string(d)+"/"+sub, &b))
	return b.String()
}

func (d hostDir) runShell(t *testing.T, script string) {
	c := exec.Command("sh", "-c", script)
	c.Dir = string(d)
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// checkContent checks every byte that the whole workload has written.
func (d hostDir) checkContent(t *testing.T, sub string) {
	require.NoError(t, workload.Content(string(d)+"/"+sub))
}

// logTime logs how long a part of a test takes.
func logTime(t *testing.T, part string, f func()) {
	start := time.Now()
	f()
	t.Logf("%-24s %6.1f s", part, time.Since(start).Seconds())
}
