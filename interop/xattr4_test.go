//go:build interop

package interop

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/interop/posix"
)

// TestXattr4 runs the functions about extended attributes on Linux's client, by
// version 4.2: they must give the results of the directory itself, with values
// of up to 64 KiB and a list of 1,000 names over RDMA and TCP (R8276-9-2, R8276-5-2).
func TestXattr4(t *testing.T) {
	guest(t)
	var names []string
	for _, c := range posix.XattrCases() {
		names = append(names, c.Name)
	}
	words := strings.Join(names, " ")
	dir := tmpfs(t)
	out, err := tryOnHost(dir, "mkdir here && "+program("guestwork")+" posix here "+words+" && rmdir here")
	reference := parsed(t, out, err)
	if strings.Contains(strings.Join(reference["xattr-how"], "\n"), "EOPNOTSUPP") {
		t.Skip("the host's tmpfs has no extended attributes of users: they came with Linux 6.6")
	}
	s := serveDir(t, dir, "--no-root-squash").site().by("4.2")
	for _, transport := range []string{"rdma", "tcp"} {
		t.Run(transport, func(t *testing.T) {
			s.mount(t, "/mnt", s.options(transport))
			out, status := try(t, "mkdir /mnt/there && guestwork posix /mnt/there "+words+" && rmdir /mnt/there")
			require.Zero(t, status, "%s", tail(out))
			seen := parsed(t, out, nil)
			umount(t, "/mnt")
			for _, w := range posix.Compare(reference, seen, "", nil) {
				t.Error(w)
			}
			assert.Len(t, seen, len(reference))
		})
	}
}
