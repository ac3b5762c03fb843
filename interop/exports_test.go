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

// TestExports changes the exports while three clients use them. A removed
// export must be stale, an export that becomes read-only must report so,
// unchanged exports must not be disturbed, and a restored export must be as
// before. A file with an error must change nothing.
func TestExports(t *testing.T) {
	dir := reachableDir(t)
	for _, name := range []string{"kept", "changed"} {
		onHost(t, dir, fmt.Sprintf("mkdir %[1]s && chmod 777 %[1]s && echo %[1]s >%[1]s/name", name))
	}
	file := filepath.Join(t.TempDir(), "exports")
	write := func(lines ...string) {
		require.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(strings.Join(lines, "\n"), "DIR", dir)), 0o644))
	}
	const kept, changed = "DIR/kept *(rw,insecure)\n", "DIR/changed *(rw,insecure)\n"
	write(kept, changed)
	d := serveExports(t, dir, file)
	const done, refused = "the exports were reloaded", "the exports are unchanged"
	said := map[string]int{}
	reload := func(want string) {
		t.Helper()
		d.proc.Signal(syscall.SIGHUP)
		require.Eventually(t, func() bool { return strings.Count(d.stderr.String(), want) > said[want] }, daemonLimit, pollEvery, "%s", d.stderr)
		said[want] = strings.Count(d.stderr.String(), want)
	}

	type place struct {
		*testShell
		kept, changed string
	}
	s := d.guestSite()
	mounts := func(name string) (points [2]string, fuse *fuseMount) {
		s.export = dir + "/" + name
		points = [2]string{"/mnt/rdma-" + name, "/mnt/tcp-" + name}
		s.mountInGuest(t, points[0], s.mountOptions("rdma", "actimeo=0"))
		s.mountInGuest(t, points[1], s.mountOptions("tcp", "actimeo=0"))
		return points, mountServer{addr: d.rdma, guestSite: s}.mountFUSE(t, "actimeo=0")
	}
	k, kf := mounts("kept")
	c, cf := mounts("changed")
	places := []place{{guestShell(t), k[0], c[0]}, {guestShell(t), k[1], c[1]}, {hostShell(t), kf.point, cf.point}}
	each := func(f func(p place)) {
		for n, p := range places {
			p.mustRun(fmt.Sprintf("exec 4>>%s/log%d && echo line >&4 && sync %[1]s", p.kept, n))
			f(p)
		}
	}
	each(func(p place) {
		p.mustRun("cat " + p.changed + "/name && echo new >" + p.changed + "/new && rm " + p.changed + "/new")
	})

	write(kept)
	reload(done)
	each(func(p place) { p.mustFail("Stale file handle", "cat "+p.changed+"/name 2>&1") })

	write(kept, strings.Replace(changed, "rw", "ro", 1))
	reload(done)
	each(func(p place) {
		assert.Equal(t, "changed\n", p.mustRun("cat "+p.changed+"/name"))
		p.mustFail("Read-only file system", "rm -f "+p.changed+"/name 2>&1")
	})

	write(kept, "DIR/changed *(rw,insecure,nonsense)\n")
	reload(refused)
	each(func(p place) { p.mustFail("Read-only file system", "rm -f "+p.changed+"/name 2>&1") })

	write(kept, changed)
	reload(done)
	each(func(p place) { p.mustRun("echo new >" + p.changed + "/new2 && rm " + p.changed + "/new2; exec 4>&-") })
	for n := range places {
		assert.Equal(t, strings.Repeat("line\n", 5), onHost(t, dir, fmt.Sprintf("cat kept/log%d", n)))
	}
	kf.unmountFUSE()
	cf.unmountFUSE()
	for _, point := range append(k[:], c[:]...) {
		unmountInGuest(t, point)
	}
	d.stopGracefully()
}
