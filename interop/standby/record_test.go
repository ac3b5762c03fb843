//go:build interop

package standby

import (
	"path"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/internal/clusterfs"
)

// turnsOf returns the hosts that have executed operations on files of the export or in the
// state directory, in the order of the operations. Reads of a host that waits are left out.
func turnsOf(records []clusterfs.Record) (hosts []string) {
	for _, r := range records {
		isData := path.Dir(r.Path) == "/data" && (r.Op == "read" || r.Op == "fsync")
		if r.Errno != 0 || !r.IsChange() && !isData || isEmpty(r) {
			continue
		}
		if len(hosts) == 0 || hosts[len(hosts)-1] != r.Host {
			hosts = append(hosts, r.Host)
		}
	}
	return hosts
}

// isEmpty reports whether an operation was asked for and did nothing.
func isEmpty(r clusterfs.Record) bool { return r.Op == "write" && r.Length == 0 }

// assertTurns checks that the hosts have served one after the other: no operation of a host
// was executed after the first one of the next.
func assertTurns(t *testing.T, c *cluster, want []string) {
	t.Helper()
	records := c.fs.Records()
	if assert.Equal(t, want, turnsOf(records)) {
		return
	}
	last := ""
	for i, r := range records {
		if r.IsChange() && last != "" && r.Host != last {
			t.Logf("a turn: %+v", records[max(0, i-3):min(len(records), i+3)])
		}
		if r.IsChange() {
			last = r.Host
		}
	}
}

// countRejected returns how many operations the file system has rejected.
func countRejected(records []clusterfs.Record) int {
	return len(slices.DeleteFunc(slices.Clone(records), func(r clusterfs.Record) bool { return r.Op != "rejected" }))
}
