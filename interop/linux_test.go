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
	guest(t)
	steps := map[string][]string{"tcp": {
		"sizes", "offsets", "parallel", "truncate", "sparse", "rename", "links", "attributes", "access", "names", "special", "errors",
	}}
	if os.Getenv("INTEROP_SOAK") != "" {
		steps = nil
	}
	for _, transport := range []string{"rdma", "tcp"} {
		t.Run(transport, func(t *testing.T) {
			d := serve(t, "--no-root-squash")
			before := d.descriptors()
			session(t, d.site(), transport, steps[transport]...)
			d.settled(before)
			d.stop()
		})
	}
}

// TestFallback mounts without naming a version, as a person may: Linux tries
// version 4 first, must fall back to 3, and asks rpcbind for MOUNT's port. On
// the host, a test cannot take that port. The guest's rpcbind therefore
// answers, and relays in the guest lead from knfsd's ports to those of a daemon
// with --vers 3, or of a bridge to a daemon with all versions.
func TestFallback(t *testing.T) {
	d := serve(t, "--no-root-squash", "--vers", "3")
	must(t, "knfsd stop")
	t.Cleanup(func() { must(t, "knfsd start") })
	t.Run("daemon", func(t *testing.T) { fallback(t, d, d.site(), map[string]int{"rdma": 20049, "tcp": 2049}) })
	t.Run("bridge", func(t *testing.T) {
		d := serve(t, "--no-root-squash")
		fallback(t, d, d.site().behind(t, d.rdma), map[string]int{"tcp": 2049})
	})
}

// fallback mounts through relays in the guest.
func fallback(t *testing.T, d *daemon, s site, transports map[string]int) {
	require.NoError(t, os.WriteFile(filepath.Join(d.dir, "file"), []byte("found"), 0o644))
	t.Cleanup(func() { must(t, "killall nc") })
	for local, port := range map[int]int{20048: s.mountd, 2049: s.tcp, 20049: s.rdma} {
		if port != 0 {
			must(t, fmt.Sprintf("nc -ll -p %d -e nc %s %d >/dev/null 2>&1 &", local, s.host, port))
		}
	}
	for transport, port := range transports {
		t.Run(transport, func(t *testing.T) {
			out := must(t, fmt.Sprintf("mount.nfs -v 10.0.2.15:/x /mnt -o nolock,proto=%s,port=%d", transport, port))
			assert.Contains(t, out, "vers=4.2", "attempts")
			assert.Equal(t, "found", must(t, "cat /mnt/file"))
			assert.Contains(t, must(t, "grep ' /mnt ' /proc/mounts"), "vers=3")
			umount(t, "/mnt")
		})
	}
}

// TestSquash checks that root is squashed to nobody by default.
func TestSquash(t *testing.T) {
	d := serve(t)
	require.NoError(t, os.Chmod(d.dir, 0o777))
	require.NoError(t, os.WriteFile(filepath.Join(d.dir, "private"), []byte("secret"), 0o600))
	s := d.site()
	s.mount(t, "/mnt", s.options("rdma"))
	must(t, "echo mine >/mnt/made")
	_, status := try(t, "cat /mnt/private")
	assert.NotZero(t, status, "squashed root read a file of root")
	_, status = try(t, "chown 0 /mnt/made")
	assert.NotZero(t, status, "root gave a file to root")
	umount(t, "/mnt")
	var st unix.Stat_t
	require.NoError(t, unix.Stat(filepath.Join(d.dir, "made"), &st))
	assert.EqualValues(t, 65534, st.Uid)
	assert.EqualValues(t, 65534, st.Gid)
}

// TestSoak lets one connection write and another read, and checks that nothing
// is left in the daemon afterwards.
func TestSoak(t *testing.T) {
	length := soakTime(t, 12*time.Second)
	quiet := serve(t, "--no-root-squash")
	open := quiet.descriptors()
	mountrdma(t, "ping", "-c", "1", quiet.rdma) // its listeners run then
	quiet.settled(open)
	idle := quiet.goroutines()

	d := serve(t, "--no-root-squash")
	before := d.descriptors()
	s := d.site()
	s.mount(t, "/mnt", s.options("rdma"))
	other := s
	other.host = "10.0.3.2" // through the other device: a client of its own
	other.mount(t, "/mnt2", other.options("rdma"))
	script := fmt.Sprintf("guestwork soak /mnt /mnt2 %s", length)
	out, status := tryFor(t, length+execLimit, script)
	t.Logf("%s", tail(out))
	require.Zero(t, status)
	umount(t, "/mnt2")
	umount(t, "/mnt")
	d.settled(before)
	assert.ElementsMatch(t, idle, d.goroutines(), "goroutines, by their creator")
}
