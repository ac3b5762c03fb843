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

// A site is a directory that a server serves to the guest.
type site struct {
	host   string // the server's address as seen by the guest
	export string
	rdma   int    // port of NFS over RDMA
	tcp    int    // port of NFS over TCP
	mountd int    // port of MOUNT over TCP
	vers   string // of NFS: "4.1" or "4.2"; empty means 3
	backing
}

// A backing is the served directory, accessed without the server.
type backing interface {
	manifest(t *testing.T, sub string) string
	shell(t *testing.T, script string) // in the directory
}

// options are the mount options for a transport, with more if wanted.
func (s site) options(transport string, more ...string) string {
	port := map[string]int{"rdma": s.rdma, "tcp": s.tcp}[transport]
	o := fmt.Sprintf("vers=3,nolock,proto=%s,port=%d,mountport=%d,mountproto=tcp", transport, port, s.mountd)
	if s.vers != "" {
		o = fmt.Sprintf("vers=%s,proto=%s,port=%d", s.vers, transport, port)
	}
	return strings.Join(append([]string{o}, more...), ",")
}

// by returns the site for mounts by a version of NFS.
func (s site) by(vers string) site {
	s.vers = vers
	return s
}

// mount mounts the site in the guest until the test ends or calls umount.
func (s site) mount(t testing.TB, point, options string) {
	t.Helper()
	must(t, fmt.Sprintf("mkdir -p %[1]s; mount.nfs %[2]s:%[3]s %[1]s -o %[4]s", point, s.host, s.export, options))
	t.Cleanup(func() {
		if t.Failed() {
			// Open files on the mount may hang; nothing waits for them.
			try(t, fmt.Sprintf("umount -f %[1]s; umount -l %[1]s; :", point))
		}
	})
}

func umount(t testing.TB, point string) {
	t.Helper()
	must(t, "umount "+point)
}

// guestDir is a directory of the guest, served by knfsd.
type guestDir string

func (d guestDir) manifest(t *testing.T, sub string) string {
	return must(t, fmt.Sprintf("guestwork manifest %s/%s", d, sub))
}

func (d guestDir) shell(t *testing.T, script string) {
	must(t, fmt.Sprintf("cd %s && %s", d, script))
}

// hostDir is a directory of the host, served by nfsrdmad.
type hostDir string

func (d hostDir) manifest(t *testing.T, sub string) string {
	var b strings.Builder
	require.NoError(t, workload.Manifest(string(d)+"/"+sub, &b))
	return b.String()
}

func (d hostDir) shell(t *testing.T, script string) {
	c := exec.Command("sh", "-c", script)
	c.Dir = string(d)
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// content checks every byte that the whole workload has written.
func (d hostDir) content(t *testing.T, sub string) {
	require.NoError(t, workload.Content(string(d)+"/"+sub))
}

// timed logs how long a part of a test takes.
func timed(t *testing.T, part string, f func()) {
	start := time.Now()
	f()
	t.Logf("%-24s %6.1f s", part, time.Since(start).Seconds())
}
