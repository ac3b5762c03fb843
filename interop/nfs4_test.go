//go:build interop

package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestVersion4 mounts without options but the port.
func TestVersion4(t *testing.T) {
	guest(t)
	d := serve(t, "--no-root-squash", "--vers", "3,4.1,4.2")
	s := d.site()
	require.NoError(t, os.WriteFile(filepath.Join(d.dir, "file"), []byte("found"), 0o644))
	for transport, port := range map[string]int{"tcp": s.tcp, "rdma": s.rdma} {
		for _, vers := range []string{"4.1", "4.2"} {
			t.Run(transport+vers, func(t *testing.T) {
				out, st := try(t, fmt.Sprintf("mount.nfs -v %s:/x /mnt -o vers=%s,proto=%s,port=%d", s.host, vers, transport, port))
				t.Log(out, st)
				assert.Equal(t, "found", must(t, "cat /mnt/file"))
				t.Log(must(t, "grep ' /mnt ' /proc/mounts"))
				out, st = try(t, "ls -la /mnt; df /mnt; echo hello >/mnt/new; cat /mnt/new; mkdir /mnt/d; mv /mnt/new /mnt/d/new; ls -laR /mnt; dd if=/dev/urandom of=/mnt/big bs=1M count=8 2>&1; md5sum /mnt/big; rm -rf /mnt/d; ln -s file /mnt/l; readlink /mnt/l; rm /mnt/l; ls /mnt; stat /mnt/file; dmesg | tail -3")
				t.Log(out, st)
				umount(t, "/mnt")
			})
		}
	}
}
