//go:build interop

package interop

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/autofstest"
)

// TestSubmountsByAutofs lets Linux use automounts below an export with crossmnt, by version 3 and 4.2:
// what Linux does in one mounts it, also after it has expired while a program has a file open, and one
// that cannot be mounted does not affect the others.
func TestSubmountsByAutofs(t *testing.T) {
	needRoot(t)
	base := reachableDir(t)
	dir := filepath.Join(base, "srv")
	onHost(t, base, "mkdir -p srv backing/v3 backing/v4.2; for v in 3 4.2; do echo in $v >backing/v$v/file; done; chmod -R a+rwX .")
	// nfsrdmad is started afterwards: a process of the automounter's group triggers nothing.
	a := autofstest.New(t, dir, "v3", "v4.2", "broken")
	file := filepath.Join(t.TempDir(), "exports")
	require.NoError(t, os.WriteFile(file, []byte(dir+" *(rw,insecure,crossmnt,no_root_squash)\n"), 0o644))
	d := serveExports(t, base, file)
	s := d.guestSite()
	s.export = dir
	for _, c := range []struct{ vers, transport string }{{"3", "tcp"}, {"4.2", "rdma"}} {
		t.Run(c.vers, func(t *testing.T) {
			vers, name := c.vers, "v"+c.vers
			if vers == "3" {
				vers = ""
			}
			s := s.withVersion(vers)
			s.mountInGuest(t, "/mnt", s.mountOptions(c.transport, "actimeo=1"))
			assert.Equal(t, "broken\nv3\nv4.2\n", mustInGuest(t, "ls /mnt; ls -l /mnt >/dev/null"))
			assert.Zero(t, a.Count(name), "listing the directory above triggers nothing")
			mustInGuest(t, "(ls /mnt/broken || true) >/dev/null 2>&1 &")
			assert.Equal(t, "file\n", mustInGuest(t, "ls /mnt/"+name))
			assert.Equal(t, "in "+c.vers+"\n", mustInGuest(t, "cat /mnt/"+name+"/file"))
			assert.Equal(t, 1, a.Count(name))

			held := startHold(t, "/mnt/"+name+"/held")
			a.Expire(name)
			checkAll([]*holdProcess{held})
			held.endHold()
			assert.Equal(t, "in "+c.vers+"\n", mustInGuest(t, "cat /mnt/"+name+"/file"))
			assert.Equal(t, 2, a.Count(name), "mounted again")
			mustInGuest(t, "grep ' /mnt/' /proc/mounts | cut -d' ' -f2 | sort -r | xargs -r -n 1 umount -l; umount -l /mnt")
		})
	}
}
