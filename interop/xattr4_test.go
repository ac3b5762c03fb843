//go:build interop

package interop

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/interop/posix"
)

// TestXattr4 runs the functions about extended attributes on Linux's client, over
// NFSv4.2: they must give the results of the directory itself, with values of up to 64
// KiB and a list of 1,000 names over RDMA and TCP (R8276-9-2, R8276-5-2).
func TestXattr4(t *testing.T) {
	sharedGuest(t)
	var names []string
	for _, c := range posix.XattrCases() {
		names = append(names, c.Name)
	}
	words := strings.Join(names, " ")
	dir := mountTmpfs(t)
	out, err := tryOnHost(dir, "mkdir here && "+programPath("guestwork")+" posix here "+words+" && rmdir here")
	reference := parseTranscript(t, out, err)
	if strings.Contains(strings.Join(reference["xattr-how"], "\n"), "EOPNOTSUPP") {
		t.Skip("the host's tmpfs has no extended attributes of users: they came with Linux 6.6")
	}
	s := serveDir(t, dir, "--no-root-squash").guestSite().withVersion("4.2")
	for _, transport := range []string{"rdma", "tcp"} {
		t.Run(transport, func(t *testing.T) {
			s.mountInGuest(t, "/mnt", s.mountOptions(transport))
			out, status := tryInGuest(t, "mkdir /mnt/there && guestwork posix /mnt/there "+words+" && rmdir /mnt/there")
			require.Zero(t, status, "%s", outputTail(out))
			seen := parseTranscript(t, out, nil)
			unmountInGuest(t, "/mnt")
			for _, w := range posix.Compare(reference, seen, "", nil) {
				t.Error(w)
			}
			assert.Len(t, seen, len(reference))
		})
	}
}
