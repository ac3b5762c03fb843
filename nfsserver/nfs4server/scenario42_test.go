package nfs4server

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfs/nfs4/nfs4test"
)

// TestScenariosOfData runs the NFSv4.2 data scenarios also in a host directory, with the
// statements that they show.
func TestScenariosOfData(t *testing.T) {
	shown := map[string]string{
		"ALLOCATE":                                          "R7862-15.1-4 R7862-15.1-5",
		"ALLOCATE of a range that no file has":              "R7862-15.1-6 R7862-3.1-1",
		"ALLOCATE and DEALLOCATE of what is no file":        "R7862-15.1-1 R7862-15.4-1",
		"ALLOCATE and DEALLOCATE with each kind of stateid": "R7862-15.1-2 R7862-15.4-5",

		"DEALLOCATE":                                   "R7862-15.4-2 R7862-15.4-3 R7862-15.4-4 R7862-15.4-6",
		"SEEK":                                         "R7862-15.11-4",
		"SEEK beyond the end":                          "R7862-15.11-2",
		"SEEK of data in the last hole":                "R7862-15.11-3",
		"SEEK of an unknown content":                   "R7862-15.11-5",
		"SEEK and READ_PLUS of what is no file":        "R7862-15.10-8",
		"SEEK and READ_PLUS with each kind of stateid": "R7862-15.11-6",
		"READ_PLUS":                                    "R7862-15.10-2 R7862-6.2.1-1",
		"READ_PLUS returns holes":                      "R7862-15.10-3",
		"READ_PLUS at the edges":                       "R7862-15.10-5",
		"READ_PLUS before other operations":            "",
		"IO_ADVISE":                                    "R7862-15.5-1 R7862-15.5-2",
		"operations of 4.2 that are optional":          "R7862-13-3 R7862-15.3-1 R7862-15.6-1 R7862-15.7-1 R7862-15.12-1",
		"COPY":                                         "R7862-15.2-7 R7862-15.2-9 R7862-15.2-10 R7862-15.2-11 R7862-4.4-1",
		"COPY, and then COMMIT":                        "R7862-15.2-14",
		"COPY of much":                                 "R7862-15.2-12 R7862-15.2-13",
		"COPY beyond the source's end":                 "R7862-15.2-8",
		"COPY within one file":                         "R7862-15.2-4",
		"COPY and CLONE of what is no file":            "R7862-15.2-3 R7862-15.13-1",
		"COPY and CLONE with each kind of stateid":     "R7862-15.2-6 R7862-15.13-2",
		"COPY that others deny":                        "R7862-15.2-16",
		"COPY without a saved filehandle":              "",
		"COPY from another server":                     "R7862-4.9-1",
		"CLONE":                                        "R7862-4.1.2-4",
		"OFFLOAD_STATUS and OFFLOAD_CANCEL of no copy": "R7862-4.8-1",
	}
	disk, _ := newDiskDir(t)
	s := serveLoopbackFS(t, 40*time.Second, disk)
	s.Minor = nfs4.Minor2
	for _, sc := range nfs4test.All() {
		if _, ok := shown[sc.Name]; !ok {
			continue
		}
		delete(shown, sc.Name)
		t.Run(sc.Name, func(t *testing.T) {
			for _, failure := range sc.Run(s) {
				t.Errorf("%s\n%s", sc.By, failure)
			}
		})
	}
	assert.Empty(t, shown, "scenarios that do not exist")
}

// TestOldMinor checks that minor version 1 has no NFSv4.2 operations: R7862-2-2.
func TestOldMinor(t *testing.T) {
	g := newTestServer(t)
	g.minor = nfs4.Minor1
	g.connectClient().becomeRoot()
	for op := nfs4.OpAllocate; op <= nfs4.OpClone; op++ {
		st, _ := g.sendSteps(putRootStep(), step{op, &nfs4.RangeArgs{}, newStatusRes()})
		assert.Equal(t, nfs4.ErrOpIllegal, st, op)
	}
}
