package exportset

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/oncrpc"
)

// TestBoundsTold checks that the bounds are those in the administrator's
// documentation.
func TestBoundsTold(t *testing.T) {
	doc, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	var p permitPool
	p.init()
	taken := func(w *permitCounts, peer *oncrpc.Peer) (n int) {
		for p.tryPermit(w, p.counterFor(w, peer)) {
			n++
		}
		return n
	}
	var first permitCounts
	party := taken(&first, peerAt(0))
	for host := range 1000 {
		taken(&first, peerAt(host))
	}
	here := first.taken.Load()
	for range 100 {
		var w permitCounts
		for host := range 100 {
			taken(&w, peerAt(host))
		}
	}
	for _, row := range []string{
		fmt.Sprintf("calls executing in file systems, over all transports | %d, and %d for one file system | %d for one file system,", p.taken.Load(), here, party),
		fmt.Sprintf("queries for users' groups | %d, of which %d run | %d, of which %d run, or half of the rest | |\n",
			maxGroupWaits, maxGroupLookups, maxGroupWaits/2, maxGroupLookups/2),
	} {
		assert.Contains(t, string(doc), "\n| "+row)
	}
	assert.Contains(t, string(doc), fmt.Sprintf("\n- Queries for users' groups: NFS3ERR_JUKEBOX at once, and after %.0f s of waiting.\n", groupLookupTimeout.Seconds()))
	assert.Contains(t, strings.ReplaceAll(string(doc), "\n  ", " "), fmt.Sprintf("if half of %d or more calls, and half of its group's (8 or more), have taken longer than %.0f s", overloadCalls, stuckTime.Seconds()))
}
