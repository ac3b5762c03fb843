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
	sharedGuest(t)
	reference := runACLSuite(t, knfsdSite())
	require.Contains(t, reference["acl-set"], "set: ok", "knfsd serves lists")
	seen := runACLSuite(t, startDaemon(t, "--no-root-squash", "--vers", "3").guestSite())
	for _, w := range posix.Compare(reference, seen, "", nil) {
		t.Error(w)
	}
	assert.Len(t, seen, len(reference))
}

// runACLSuite runs the functions on a mount.
func runACLSuite(t *testing.T, s guestSite) posix.Transcript {
	t.Helper()
	var names []string
	for _, c := range posix.ACLCases() {
		names = append(names, c.Name)
	}
	s.mountInGuest(t, "/mnt", s.mountOptions("rdma"))
	out, status := tryInGuest(t, "mkdir /mnt/acls && guestwork posix /mnt/acls "+strings.Join(names, " ")+" && rmdir /mnt/acls")
	require.Zero(t, status, "%s", outputTail(out))
	seen := parseTranscript(t, out, nil)
	unmountInGuest(t, "/mnt")
	return seen
}
