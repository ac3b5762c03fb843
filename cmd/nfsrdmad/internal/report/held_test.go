package report

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs4"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4server"
	"github.com/nfsrdma/nfsrdma/nfsserver/nfs4state"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/vfs/locks"
)

// heldTestFile returns a file that an NFSv4 client, an NLM client and a mount with delegation counters
// hold.
func heldTestFile(at exportset.Location) *nfs4server.HeldFile {
	four := &nfs4state.FileHolder{ID: 1, Name: "a\x1b[2J", Minor: 2}
	three := &nfs4state.FileHolder{ID: 2, Name: "host3", Machine: true, Addr: netip.MustParseAddrPort("192.0.2.3:0")}
	f := &nfs4server.HeldFile{Location: at, Counters: []nfs4server.CounterHolder{{Peer: &oncrpc.Peer{Addr: netip.MustParseAddrPort("192.0.2.4:5")}, Recalled: true}}}
	f.Opens = []nfs4state.HeldOpen{{FileHolder: four, Access: nfs4.ShareRead, Deny: nfs4.ShareWrite}}
	f.Delegations = []nfs4state.HeldDelegation{{FileHolder: four, Write: true}}
	f.Locks = []nfs4state.HeldLock{{FileHolder: three, Owner: "\x00\x00\x00\x07oh", Range: locks.Range{Start: 3, End: locks.ToEnd}, Exclusive: true}}
	f.Waiters = []nfs4state.LockWaiter{{HeldLock: nfs4state.HeldLock{FileHolder: four, Owner: "\x1b", Range: locks.Range{End: 5}}, For: 62 * time.Second, OnHost: true}}
	f.Omitted = true
	return f
}

// TestHeldText checks the text about a file: each kind of entry, and nothing that a terminal would
// execute.
func TestHeldText(t *testing.T) {
	d := &HeldList{Files: []heldFileDoc{newHeldFileDoc(heldTestFile(exportset.Location{Export: "/x", Path: "/srv/x/a b", FileID: 9}))}, More: 7, Next: "6b", Counters: 5}
	var b strings.Builder
	require.NoError(t, d.PrintText(&b, time.Time{}))
	want := `"/srv/x/a b"
  open              read, denies write                                         0000000000000001                 "a\x1b[2J"
  delegation        write                                                      0000000000000001                 "a\x1b[2J"
  delegation        counter, recalled                                          -                 192.0.2.4:5    mountrdma
  lock              write, bytes 3 to the end                                  0000000000000002  192.0.2.3      host3, lock-owner oh svid 7
  waits 1 min 2 s   read, bytes 0 to 5, locked by a process of the server      0000000000000001                 "a\x1b[2J", lock-owner "\x1b"
  and more
and 7 more files: add --after 6b
mountrdma clients hold 5 files or directories by delegation counters: nfsrdmad locks FILE lists those of a file
`
	assert.Equal(t, strings.Fields(want), strings.Fields(b.String()))
	assert.NotContains(t, b.String(), "\x1b")
}

// TestHeldName checks how a file is named with and without a known path.
func TestHeldName(t *testing.T) {
	for want, at := range map[string]exportset.Location{
		"/srv/f (removed)":    {Export: "/x", Path: "/srv/f", Removed: true, FileID: 9},
		"fileid 9 in /x":      {Export: "/x", FileID: 9},
		"a file in /x":        {Export: "/x"},
		"a file in no export": {},
	} {
		f := newHeldFileDoc(&nfs4server.HeldFile{Location: at})
		assert.Equal(t, want, f.describe())
	}
}

// TestLiveHeld checks that the page has a row for each client and file, of limited length.
func TestLiveHeld(t *testing.T) {
	file := heldTestFile(exportset.Location{Path: "/f"})
	for range 20 {
		file.Opens = append(file.Opens, file.Opens[0])
	}
	f := newHeldFileDoc(file)
	v := &liveHeldView{More: 3}
	v.addFile(&f)
	require.Len(t, v.Rows, 3)
	assert.Equal(t, liveHeldRow{`"a\x1b[2J"`, "", "/f", strings.Repeat("open read, denies write; ", maxLiveParts) + "and more", true}, v.Rows[0])
	var b strings.Builder
	require.NoError(t, liveTemplate().Execute(&b, newLiveView(new(Status), new(ClientList), v, time.Now())))
	assert.Len(t, tableCells(b.String(), "held"), 3)
	assert.Contains(t, b.String(), "and 3 more files")
}
