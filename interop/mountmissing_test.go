//go:build interop

package interop

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestMountMissing checks that an ordinary user learns of the things that this host
// lacks for a mount before mountrdma contacts a server. No server exists here.
func TestMountMissing(t *testing.T) {
	buildOnce(t)
	fuseForAll(t)
	conf := filepath.Join(t.TempDir(), "fuse.conf")
	require.NoError(t, os.WriteFile(conf, []byte("#user_allow_other\n"), 0o644))
	require.NoError(t, unix.Mount(conf, "/etc/fuse.conf", "", unix.MS_BIND, ""))
	t.Cleanup(func() { assert.NoError(t, unix.Unmount("/etc/fuse.conf", unix.MNT_DETACH)) })
	point := reachableDir(t)
	require.NoError(t, os.Chown(point, 1000, 1001))

	replace := strings.NewReplacer("USER", "$(command -v setpriv) --reuid=1000 --regid=1001 --clear-groups", "PROGRAM", programPath("mountrdma"), "POINT", point)
	for script, want := range map[string]string{
		"USER PROGRAM 127.0.0.1:/x POINT -o allow_other":                                             "allow_other is for root: as root, add user_allow_other to /etc/fuse.conf, or omit the option",
		"USER PROGRAM 127.0.0.1:/x /":                                                                "mount point /: permission denied: an ordinary user can mount only on a directory with write permission",
		"env PATH=/nowhere USER PROGRAM 127.0.0.1:/x POINT":                                          "fusermount3 is missing, which ordinary users need to mount: install the package fuse3, or mount as root",
		"chmod 600 /dev/fuse; USER PROGRAM 127.0.0.1:/x POINT || x=$?; chmod 666 /dev/fuse; exit $x": "/dev/fuse: permission denied: as root, make it accessible (chmod 0666 /dev/fuse), or mount as root",
		"USER PROGRAM umount /proc":                                                                  "/proc is a mount of type proc, not of mountrdma: umount(8) unmounts it",
	} {
		out, err := tryOnHost("/", replace.Replace(script))
		assert.EqualError(t, err, "exit status 1", script)
		assert.Equal(t, "mountrdma: "+want+"\n", out)
	}
}
