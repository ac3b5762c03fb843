package realm

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// TestBoundsTold checks that the bounds are those in the administrator's
// documentation.
func TestBoundsTold(t *testing.T) {
	doc, err := os.ReadFile("../docs/operations.md")
	require.NoError(t, err)
	var p permits
	p.init()
	taken := func(w *work, peer *oncrpc.Peer) (n int) {
		for p.try(w, p.of(w, peer)) {
			n++
		}
		return n
	}
	var first work
	party := taken(&first, peerOf(0))
	for host := range 1000 {
		taken(&first, peerOf(host))
	}
	here := first.taken.Load()
	for range 100 {
		var w work
		for host := range 100 {
			taken(&w, peerOf(host))
		}
	}
	for _, row := range []string{
		fmt.Sprintf("calls executing in file systems, over all transports | %d, and %d for one file system | %d for one file system,", p.taken.Load(), here, party),
		fmt.Sprintf("queries for users' groups | %d, of which %d run | %d, of which %d run, or half of what others leave | | NFS3ERR_JUKEBOX, after %.0f s",
			maxGroupWaits, maxGroupLookups, maxGroupWaits/2, maxGroupLookups/2, groupsTime.Seconds()),
	} {
		assert.Contains(t, string(doc), "\n| "+row)
	}
	assert.Contains(t, string(doc), fmt.Sprintf("if half of %d or more have taken longer than %.0f s", maxWaiting, stuckTime.Seconds()))
}
