//go:build interop

package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestLinux checks the whole workload by the kernel's client on nfsrdmad, over RDMA.
// Over TCP, the long steps "tree", "large" and "listing" are for make soak.
func TestLinux(t *testing.T) {
	sharedGuest(t)
	steps := map[string][]string{"tcp": {
		"sizes", "offsets", "parallel", "truncate", "sparse", "rename", "links", "attributes", "access", "names", "special", "errors",
	}}
	if os.Getenv("INTEROP_SOAK") != "" {
		steps = nil
	}
	for _, transport := range []string{"rdma", "tcp"} {
		t.Run(transport, func(t *testing.T) {
			d := startDaemon(t, "--no-root-squash")
			before := d.openFiles()
			runSession(t, d.guestSite(), transport, steps[transport]...)
			d.checkDescriptors(before)
			d.stopGracefully()
		})
	}
}

// TestFallback mounts without naming a version, as a person may: Linux tries
// version 4 first, must fall back to 3, and asks rpcbind for MOUNT's port. On
// the host, a test cannot take that port. The guest's rpcbind therefore
// answers, and relays in the guest lead from knfsd's ports to those of a daemon
// with --vers 3, or of a bridge to a daemon with all versions.
func TestFallback(t *testing.T) {
	d := startDaemon(t, "--no-root-squash", "--vers", "3")
	mustInGuest(t, "knfsd stop")
	t.Cleanup(func() { mustInGuest(t, "knfsd start") })
	t.Run("daemon", func(t *testing.T) { checkFallback(t, d, d.guestSite(), map[string]int{"rdma": 20049, "tcp": 2049}) })
	t.Run("bridge", func(t *testing.T) {
		d := startDaemon(t, "--no-root-squash")
		checkFallback(t, d, d.guestSite().behindBridge(t, d.rdma), map[string]int{"tcp": 2049})
	})
}

// checkFallback mounts through relays in the guest.
func checkFallback(t *testing.T, d *daemon, s guestSite, transports map[string]int) {
	require.NoError(t, os.WriteFile(filepath.Join(d.dir, "file"), []byte("found"), 0o644))
	t.Cleanup(func() { mustInGuest(t, "killall nc") })
	for local, port := range map[int]int{20048: s.mountd, 2049: s.tcp, 20049: s.rdma} {
		if port != 0 {
			mustInGuest(t, fmt.Sprintf("nc -ll -p %d -e nc %s %d >/dev/null 2>&1 &", local, s.host, port))
		}
	}
	for transport, port := range transports {
		t.Run(transport, func(t *testing.T) {
			out := mustInGuest(t, fmt.Sprintf("mount.nfs -v 10.0.2.15:/x /mnt -o nolock,proto=%s,port=%d", transport, port))
			assert.Contains(t, out, "vers=4.2", "attempts")
			assert.Equal(t, "found", mustInGuest(t, "cat /mnt/file"))
			assert.Contains(t, mustInGuest(t, "grep ' /mnt ' /proc/mounts"), "vers=3")
			unmountInGuest(t, "/mnt")
		})
	}
}

// TestSquash checks that root is squashed to nobody by default.
func TestSquash(t *testing.T) {
	d := startDaemon(t)
	require.NoError(t, os.Chmod(d.dir, 0o777))
	require.NoError(t, os.WriteFile(filepath.Join(d.dir, "private"), []byte("secret"), 0o600))
	s := d.guestSite()
	s.mountInGuest(t, "/mnt", s.mountOptions("rdma"))
	mustInGuest(t, "echo mine >/mnt/made")
	_, status := tryInGuest(t, "cat /mnt/private")
	assert.NotZero(t, status, "squashed root read a file of root")
	_, status = tryInGuest(t, "chown 0 /mnt/made")
	assert.NotZero(t, status, "root gave a file to root")
	unmountInGuest(t, "/mnt")
	var st unix.Stat_t
	require.NoError(t, unix.Stat(filepath.Join(d.dir, "made"), &st))
	assert.EqualValues(t, 65534, st.Uid)
	assert.EqualValues(t, 65534, st.Gid)
}

// TestSoak lets one connection write and another read, and checks that nothing
// is left in the daemon afterwards.
func TestSoak(t *testing.T) {
	length := soakTime(t, 12*time.Second)
	quiet := startDaemon(t, "--no-root-squash")
	open := quiet.openFiles()
	runMountrdma(t, "ping", "-c", "1", quiet.rdma) // its listeners run then
	quiet.checkDescriptors(open)
	idle := quiet.listGoroutines()

	d := startDaemon(t, "--no-root-squash")
	before := d.openFiles()
	s := d.guestSite()
	s.mountInGuest(t, "/mnt", s.mountOptions("rdma"))
	other := s
	other.host = "10.0.3.2" // through the other device: a client of its own
	other.mountInGuest(t, "/mnt2", other.mountOptions("rdma"))
	script := fmt.Sprintf("guestwork soak /mnt /mnt2 %s", length)
	out, status := tryFor(t, length+execLimit, script)
	t.Logf("%s", outputTail(out))
	require.Zero(t, status)
	unmountInGuest(t, "/mnt2")
	unmountInGuest(t, "/mnt")
	d.checkDescriptors(before)
	assert.ElementsMatch(t, idle, d.listGoroutines(), "goroutines, by their creator")
}
