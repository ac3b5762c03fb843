//go:build interop

package interop

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/interop/posix"
)

// TestACL runs the functions about access control lists on Linux's client, by
// NFSACL: nfsrdmad and the kernel's own server must give the same results.
func TestACL(t *testing.T) {
	guest(t)
	reference := acls(t, knfsd())
	require.Contains(t, reference["acl-set"], "set: ok", "knfsd serves lists")
	seen := acls(t, serve(t, "--no-root-squash", "--vers", "3").site())
	for _, w := range posix.Compare(reference, seen, "", nil) {
		t.Error(w)
	}
	assert.Len(t, seen, len(reference))
}

// acls runs the functions on a mount.
func acls(t *testing.T, s site) posix.Transcript {
	t.Helper()
	var names []string
	for _, c := range posix.ACLCases() {
		names = append(names, c.Name)
	}
	s.mount(t, "/mnt", s.options("rdma"))
	out, status := try(t, "mkdir /mnt/acls && guestwork posix /mnt/acls "+strings.Join(names, " ")+" && rmdir /mnt/acls")
	require.Zero(t, status, "%s", tail(out))
	seen := parsed(t, out, nil)
	umount(t, "/mnt")
	return seen
}
