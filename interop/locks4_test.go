//go:build interop

package interop

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLocks4 has processes of the guest lock bytes of one file through two
// mounts by version 4, which are two clients. The answers are those of a local
// file system.
func TestLocks4(t *testing.T) {
	guest(t)
	dir := tmpfs(t)
	reference, err := tryOnHost(dir, program("guestwork")+" locking "+dir+" "+dir)
	require.NoError(t, err, reference)
	d := serve(t, "--no-root-squash")
	s := d.site().by("4.2")
	s.mount(t, "/mnt", s.options("rdma"))
	s.mount(t, "/mnt2", s.options("tcp"))
	timed(t, "by RDMA and TCP", func() { sameLines(t, reference, must(t, "guestwork locking /mnt /mnt2")) })
	umount(t, "/mnt")
	umount(t, "/mnt2")
	d.stop()
	assert.NotContains(t, d.stderr.String(), "level=WARN")
}
